"""Other people's call signatures: functions by the names and shapes that existing scripts use.

label_retrieval  instance and prototype retrieval between sensors and texts
next_location    sums, percentages and JSON of next-location prediction
binary_codes     cosine and Hamming neighbours as matrices, recall and nDCG of index lists
keypoints        metrics of a keypoint experiment
model_bench      top-k and recall of two embedding models
pytrec_eval      RelevanceEvaluator and its parsers: one changed import
trec_eval        what the program prints, by its own flags
ranx             Qrels, Run, evaluate, compare and fuse: one changed import
ir_measures      measure objects, calc_aggregate, iter_calc: one changed import
"""
