"""A store of runs: in a file of SQLite, or in PostgreSQL for a team.

import assay.store
with assay.store.open() as store:
    run = store.save(scores, "bm25", task="retrieval", dataset="cranfield")
    store.run(run.id).scores()
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
