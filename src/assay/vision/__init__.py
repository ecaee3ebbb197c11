"""Image descriptors: how well keypoints of one image find their true match in another.

Scenes are images with known homographies; `make_pair` finds keypoints, descriptors and matches:

    from assay.vision import KeypointSettings, find_scenes, make_pair
    for scene in find_scenes("hpatches"):
        pair = make_pair(scene, 2, descriptor="RootSIFT", taus=(1, 3, 5))

Ranks of true matches are counted (`rank_pair`), become a `DescriptorResult`, and that gives mAP,
Success@k, intervals over scenes, chance and comparisons. `run_experiment` does all of it from an
experiment file, and `ExperimentReport` makes tables of it. `records()` of a result go into a store
or a report.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
