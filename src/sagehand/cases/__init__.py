"""Cases: the case base in one SQLite file, its knowledge tree, import and export, history and decision log."""

from sagehand.cases.base import CaseBase
from sagehand.cases.case import NOTHING_DONE, ROW_FIELDS, Case, CaseDraft, DepthUnit, Hit, Where, parse_row
from sagehand.cases.export import ExportReport, export_folder
from sagehand.cases.folder import ImportInterrupted, ImportReport, image_files, import_folder
from sagehand.cases.history import LogEntry
from sagehand.cases.index import CODED_FIELDS, Index
from sagehand.cases.intake import crop_and_embed
from sagehand.cases.table import RowProblem, Table, TableRow, read_table
from sagehand.cases.tree import DeviceNode, FamilyNode, StepNode, Tree
from sagehand.cases.write import Embedded

__all__ = [
    "CODED_FIELDS",
    "NOTHING_DONE",
    "ROW_FIELDS",
    "Case",
    "CaseBase",
    "CaseDraft",
    "DepthUnit",
    "DeviceNode",
    "Embedded",
    "ExportReport",
    "FamilyNode",
    "Hit",
    "ImportInterrupted",
    "ImportReport",
    "Index",
    "LogEntry",
    "RowProblem",
    "StepNode",
    "Table",
    "TableRow",
    "Tree",
    "Where",
    "crop_and_embed",
    "export_folder",
    "image_files",
    "import_folder",
    "parse_row",
    "read_table",
]
