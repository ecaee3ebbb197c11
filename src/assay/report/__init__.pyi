from assay.report.report import Report as Report
from assay.report.report import make_report as make_report
from assay.runs.record import RunRecord as RunRecord
