from assay.tasks.comparison import TaskComparison as TaskComparison
from assay.tasks.comparison import compare_tasks as compare_tasks
