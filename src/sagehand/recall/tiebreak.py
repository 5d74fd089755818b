"""Breaking a tie with a judge: all pairs at once, one after the other, or in a bracket (paper A, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Sequence

from sagehand.judge.questions import Candidate, Judge, Query
from sagehand.recall.asker import Asker, Pending, Question
from sagehand.recall.params import SearchParams
from sagehand.recall.ties import all_pairs, eliminate, find_cycle, pair_up, settle
from sagehand.recall.trace import Pair, Tie

__all__ = ["TieBreak"]


class TieBreak:
    """Compares candidates in pairs, and never the same pair twice.

    Args:
        query: What the judge is shown.
        judge: Who is asked.
        asker: Puts the questions.
        params: Of the search.

    Attributes:
        turns: Comparisons that Algorithm 4 needs one after the other; known once a tie was broken.
    """

    def __init__(self, query: Query, judge: Judge, asker: Asker, params: SearchParams) -> None:
        self.turns = 0
        self._query, self._judge, self._asker, self._params = query, judge, asker, params
        self._candidates: dict[str, Candidate] = {}
        self._compared: dict[tuple[str, str], Pending] = {}

    def ahead(self, tied: Sequence[Candidate]) -> None:
        """Begin to compare what is tied so far, without waiting for it. Calls that are counted are not risked."""
        if self._params.ahead and self._asker.calls_left is None and len(tied) <= self._params.tie_pairs_up_to:
            self._compare(all_pairs(self._known(tied)))

    def resolve(self, grade: int, tied: Sequence[Candidate]) -> Tie:
        """Find the one of them that stays.

        Args:
            grade: The grade that they share.
            tied: The candidates by rank, at least two.
        """
        ids, calls = self._known(tied), self._asker.calls_left
        many = len(ids) > self._params.tie_pairs_up_to
        pairs = len(ids) - 1 if many else len(all_pairs(ids))
        if self._params.faithful or (calls is not None and calls < len(self._orders("", "")) * pairs):
            winner, needed = eliminate(ids, self._compare_in_turn)
            tie = Tie(grade, tuple(ids), "one by one", tuple(needed), winner)
        elif many:
            tie = self._bracket(grade, ids)
            needed = list(tie.pairs)
        else:
            tie, needed = self._all_pairs(grade, ids)
        self.turns = sum(key in self._compared for pair in needed for key in self._orders(pair.first, pair.second))
        return tie

    def _all_pairs(self, grade: int, ids: list[str]) -> tuple[Tie, list[Pair]]:
        """Ask all, replay Algorithm 4 over the answers: the tie, and the pairs that the algorithm needs of them."""
        wanted = all_pairs(ids)
        self._asker.finished(self._compare(wanted), all=True)
        known = {pair: self._settled(*pair) for pair in wanted}
        winner, needed = eliminate(ids, lambda first, second: known[first, second])
        cycle = find_cycle(ids, list(known.values()))
        note = "the comparisons go round in a circle, so the order of comparing decides" if cycle else ""
        return Tie(grade, tuple(ids), "all pairs", tuple(known.values()), winner, cycle, note), needed

    def _bracket(self, grade: int, ids: list[str]) -> Tie:
        left, met = list(ids), list[Pair]()
        while len(left) > 1:
            pairs, waits = pair_up(left)
            self._asker.finished(self._compare(pairs), all=True)
            settled = [self._settled(*pair) for pair in pairs]
            met += settled
            left = [*(pair.winner for pair in settled), *waits]
        note = (
            f"{len(ids)} share the highest grade, more than {self._params.tie_pairs_up_to}: they met in a bracket, which "
            "may end elsewhere than Algorithm 4 if the comparisons contradict each other"
        )
        return Tie(grade, tuple(ids), "bracket", tuple(met), left[0], None, note)

    def _compare_in_turn(self, first: str, second: str) -> Pair:
        for key in self._orders(first, second):
            pending = self._asker.ask(self._question(*key), "comparison")
            if pending is not None:
                self._compared[key] = pending
        return self._settled(first, second)

    def _compare(self, pairs: Sequence[tuple[str, str]]) -> list[Pending]:
        """Ask at once what was not asked yet; all questions about these pairs."""
        wanted = [key for pair in pairs for key in self._orders(*pair)]
        new = [key for key in wanted if key not in self._compared]
        round = self._asker.round("comparisons") if new else -1
        for place, key in enumerate(new):
            pending = self._asker.start(self._question(*key), round, place)
            if pending is not None:
                self._compared[key] = pending
        return [self._compared[key] for key in wanted if key in self._compared]

    def _question(self, first: str, second: str) -> Question:
        one, other = self._candidates[first], self._candidates[second]
        return Question("CompareImages", (first, second), lambda: self._judge.compare(self._query, one, other))

    def _orders(self, first: str, second: str) -> list[tuple[str, str]]:
        return [(first, second), (second, first)] if self._params.both_orders else [(first, second)]

    def _settled(self, first: str, second: str) -> Pair:
        asked, turned = self._compared.get((first, second)), self._compared.get((second, first))
        return settle(first, second, asked.asked if asked else None, turned.asked if turned else None)

    def _known(self, tied: Sequence[Candidate]) -> list[str]:
        self._candidates |= {candidate.case.id: candidate for candidate in tied}
        return [candidate.case.id for candidate in tied]
