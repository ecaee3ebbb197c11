"""The plugin of the report room."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "Write runs and their comparison as one page with charts that opens offline."

PLUGIN = Plugin(
    "report",
    commands=(CommandEntry("report", "Keep and show", _ABOUT, "assay.report.command:command"),),
    hooks={
        "check_report_file": "assay.report.report:check_ending",
        "make_report": "assay.report.report:make_report",
        "plot_means": "assay.report.charts:plot_means",
        "plot_standings": "assay.report.charts:plot_standings",
        "plot_differences": "assay.report.charts:plot_differences",
        "plot_aggregates": "assay.report.charts:plot_aggregates",
    },
    schemas="assay.report:schemas.json",
)
