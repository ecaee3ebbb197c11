CREATE TABLE assay_schema (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT assay_schema_pkc PRIMARY KEY (version_num)
);

CREATE TABLE runs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT DEFAULT '' NOT NULL,
    batch TEXT DEFAULT '' NOT NULL,
    rerun_of TEXT DEFAULT '' NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    task TEXT DEFAULT '' NOT NULL,
    dataset TEXT DEFAULT '' NOT NULL,
    model TEXT DEFAULT '' NOT NULL,
    status TEXT DEFAULT '' NOT NULL,
    message TEXT DEFAULT '' NOT NULL,
    created TEXT DEFAULT '' NOT NULL,
    updated TEXT DEFAULT '' NOT NULL,
    finished TEXT,
    seconds FLOAT,
    n_queries BIGINT DEFAULT '0' NOT NULL,
    conventions TEXT DEFAULT '' NOT NULL,
    signature TEXT DEFAULT '' NOT NULL,
    search TEXT DEFAULT '' NOT NULL,
    command TEXT DEFAULT '' NOT NULL,
    folder TEXT DEFAULT '' NOT NULL,
    origin TEXT DEFAULT '' NOT NULL,
    git_commit TEXT DEFAULT '' NOT NULL,
    config TEXT DEFAULT '' NOT NULL,
    versions TEXT DEFAULT '' NOT NULL,
    seeds TEXT DEFAULT '' NOT NULL,
    data TEXT DEFAULT '' NOT NULL,
    timings TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    done BIGINT DEFAULT '0' NOT NULL,
    total BIGINT DEFAULT '0' NOT NULL,
    digest TEXT DEFAULT '' NOT NULL,
    digest_from TEXT DEFAULT '' NOT NULL,
    marks TEXT DEFAULT '' NOT NULL,
    CONSTRAINT runs_uid UNIQUE (uid),
    CONSTRAINT runs_status CHECK (status in ('running', 'finished', 'failed'))
);

CREATE TABLE aggregates (
    run_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    measure TEXT DEFAULT '' NOT NULL,
    average TEXT DEFAULT '' NOT NULL,
    by_column TEXT DEFAULT '' NOT NULL,
    subset TEXT DEFAULT '' NOT NULL,
    value FLOAT,
    value_skip FLOAT,
    value_zero FLOAT,
    low FLOAT,
    high FLOAT,
    level FLOAT,
    method TEXT DEFAULT '' NOT NULL,
    note TEXT DEFAULT '' NOT NULL,
    chance FLOAT,
    ceiling FLOAT,
    n BIGINT DEFAULT '0' NOT NULL,
    empty BIGINT DEFAULT '0' NOT NULL,
    missing BIGINT DEFAULT '0' NOT NULL,
    tied BIGINT DEFAULT '0' NOT NULL,
    groups_left_out BIGINT DEFAULT '0' NOT NULL,
    clusters TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (run_id, position),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE tags (
    run_id INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (run_id, tag),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE blobs (
    run_id INTEGER NOT NULL,
    part TEXT DEFAULT '' NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    position INTEGER NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    encoding TEXT DEFAULT '' NOT NULL,
    size BIGINT DEFAULT '0' NOT NULL,
    raw_bytes BIGINT DEFAULT '0' NOT NULL,
    checksum TEXT DEFAULT '' NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run_id, part, kind, position),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE shown (
    run_id INTEGER NOT NULL,
    query_key TEXT NOT NULL,
    position INTEGER NOT NULL,
    raw_bytes BIGINT NOT NULL,
    checksum TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run_id, query_key),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE wide_values (
    run_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    number FLOAT,
    text TEXT,
    PRIMARY KEY (run_id, name),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX runs_task ON runs (task);

CREATE INDEX runs_dataset ON runs (dataset);

CREATE INDEX runs_model ON runs (model);

CREATE INDEX runs_name ON runs (name);

CREATE INDEX runs_status ON runs (status);

CREATE INDEX runs_created ON runs (created);

CREATE INDEX runs_batch ON runs (batch);

CREATE INDEX aggregates_measure ON aggregates (measure, run_id);

CREATE INDEX tags_tag ON tags (tag);

CREATE VIEW wide_results AS
SELECT runs.id AS run_id, runs.name,
    CASE WHEN w.run_id IS NULL THEN runs.name ELSE w.descriptor END AS descriptor,
    runs.task, runs.dataset, runs.model, runs.status, runs.created,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE w.keypoint_set END AS keypoint_set,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE w.tau END AS tau,
    CASE WHEN w.run_id IS NULL THEN a.true_map_micro ELSE w.true_map_micro END AS true_map_micro,
    CASE WHEN w.run_id IS NULL THEN a.true_map_macro ELSE w.true_map_macro END AS true_map_macro,
    CASE WHEN w.run_id IS NULL THEN a.true_map_macro_by_scene ELSE w.true_map_macro_by_scene END AS true_map_macro_by_scene,
    CASE WHEN w.run_id IS NULL THEN a.true_map_micro_including_zeros ELSE w.true_map_micro_including_zeros END AS true_map_micro_including_zeros,
    CASE WHEN w.run_id IS NULL THEN a.true_map_macro_by_scene_including_zeros ELSE w.true_map_macro_by_scene_including_zeros END AS true_map_macro_by_scene_including_zeros,
    CASE WHEN w.run_id IS NULL THEN COALESCE(a.mean_average_precision, a.overall) ELSE w.mean_average_precision END AS mean_average_precision,
    CASE WHEN w.run_id IS NULL THEN a.viewpoint_map ELSE w.viewpoint_map END AS viewpoint_map,
    CASE WHEN w.run_id IS NULL THEN a.viewpoint_map_including_zeros ELSE w.viewpoint_map_including_zeros END AS viewpoint_map_including_zeros,
    CASE WHEN w.run_id IS NULL THEN a.illumination_map ELSE w.illumination_map END AS illumination_map,
    CASE WHEN w.run_id IS NULL THEN a.illumination_map_including_zeros ELSE w.illumination_map_including_zeros END AS illumination_map_including_zeros,
    CASE WHEN w.run_id IS NULL THEN a.keypoint_verification_ap ELSE w.keypoint_verification_ap END AS keypoint_verification_ap,
    CASE WHEN w.run_id IS NULL THEN a.verification_viewpoint_ap ELSE w.verification_viewpoint_ap END AS verification_viewpoint_ap,
    CASE WHEN w.run_id IS NULL THEN a.verification_illumination_ap ELSE w.verification_illumination_ap END AS verification_illumination_ap,
    CASE WHEN w.run_id IS NULL THEN a.keypoint_retrieval_ap ELSE w.keypoint_retrieval_ap END AS keypoint_retrieval_ap,
    CASE WHEN w.run_id IS NULL THEN a.retrieval_viewpoint_ap ELSE w.retrieval_viewpoint_ap END AS retrieval_viewpoint_ap,
    CASE WHEN w.run_id IS NULL THEN a.retrieval_illumination_ap ELSE w.retrieval_illumination_ap END AS retrieval_illumination_ap,
    CASE WHEN w.run_id IS NULL THEN a.image_matching_map ELSE w.image_matching_map END AS image_matching_map,
    CASE WHEN w.run_id IS NULL THEN a.image_retrieval_map ELSE w.image_retrieval_map END AS image_retrieval_map,
    CASE WHEN w.run_id IS NULL THEN a.precision_at_1 ELSE w.precision_at_1 END AS precision_at_1,
    CASE WHEN w.run_id IS NULL THEN a.precision_at_5 ELSE w.precision_at_5 END AS precision_at_5,
    CASE WHEN w.run_id IS NULL THEN a.precision_at_10 ELSE w.precision_at_10 END AS precision_at_10,
    CASE WHEN w.run_id IS NULL THEN a.recall_at_1 ELSE w.recall_at_1 END AS recall_at_1,
    CASE WHEN w.run_id IS NULL THEN a.recall_at_5 ELSE w.recall_at_5 END AS recall_at_5,
    CASE WHEN w.run_id IS NULL THEN a.recall_at_10 ELSE w.recall_at_10 END AS recall_at_10,
    CASE WHEN w.run_id IS NULL THEN a.mean_precision ELSE w.mean_precision END AS mean_precision,
    CASE WHEN w.run_id IS NULL THEN a.legacy_macro_precision_by_scene ELSE w.legacy_macro_precision_by_scene END AS legacy_macro_precision_by_scene,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE CAST(w.retrieval_num_true_positives AS BIGINT) END AS retrieval_num_true_positives,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE CAST(w.retrieval_num_hard_negatives AS BIGINT) END AS retrieval_num_hard_negatives,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE CAST(w.retrieval_num_distractors AS BIGINT) END AS retrieval_num_distractors,
    CASE WHEN w.run_id IS NULL THEN runs.n_queries - a.total_queries_excluded ELSE CAST(w.total_queries_processed AS BIGINT) END AS total_queries_processed,
    CASE WHEN w.run_id IS NULL THEN a.total_queries_excluded ELSE CAST(w.total_queries_excluded AS BIGINT) END AS total_queries_excluded,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE CAST(w.total_queries_failed AS BIGINT) END AS total_queries_failed,
    CASE WHEN w.run_id IS NULL THEN 1000 * runs.seconds ELSE w.processing_time_ms END AS processing_time_ms,
    CASE WHEN w.run_id IS NULL THEN NULL ELSE w.metadata END AS metadata
FROM runs LEFT JOIN (
  SELECT run_id,
    MAX(CASE WHEN measure = 'AP' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS true_map_micro,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = '' THEN value_skip END) AS true_map_macro,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = '' THEN value_skip END) AS true_map_macro_by_scene,
    MAX(CASE WHEN measure = 'AP' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_zero END) AS true_map_micro_including_zeros,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = '' THEN value_zero END) AS true_map_macro_by_scene_including_zeros,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = '' THEN value_skip END) AS mean_average_precision,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = 'viewpoint' THEN value_skip END) AS viewpoint_map,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = 'viewpoint' THEN value_zero END) AS viewpoint_map_including_zeros,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = 'illumination' THEN value_skip END) AS illumination_map,
    MAX(CASE WHEN measure = 'AP' AND average = 'macro' AND by_column = 'scene' AND subset = 'illumination' THEN value_zero END) AS illumination_map_including_zeros,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'verification' THEN value END) AS keypoint_verification_ap,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'verification/viewpoint' THEN value END) AS verification_viewpoint_ap,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'verification/illumination' THEN value END) AS verification_illumination_ap,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'retrieval' THEN value END) AS keypoint_retrieval_ap,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'retrieval/viewpoint' THEN value END) AS retrieval_viewpoint_ap,
    MAX(CASE WHEN measure = 'PooledAP' AND average = 'pooled' AND by_column = '' AND subset = 'retrieval/illumination' THEN value END) AS retrieval_illumination_ap,
    MAX(CASE WHEN measure = 'image_matching_map' AND average = 'images' AND by_column = '' AND subset = '' THEN value END) AS image_matching_map,
    MAX(CASE WHEN measure = 'image_retrieval_map' AND average = 'images' AND by_column = '' AND subset = '' THEN value END) AS image_retrieval_map,
    MAX(CASE WHEN measure = 'Success@1' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS precision_at_1,
    MAX(CASE WHEN measure = 'Success@5' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS precision_at_5,
    MAX(CASE WHEN measure = 'Success@10' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS precision_at_10,
    MAX(CASE WHEN measure = 'Success@1' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS recall_at_1,
    MAX(CASE WHEN measure = 'Success@5' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS recall_at_5,
    MAX(CASE WHEN measure = 'Success@10' AND average = 'micro' AND by_column = '' AND subset = '' THEN value_skip END) AS recall_at_10,
    MAX(CASE WHEN measure = 'mean_precision' AND average = 'micro' AND by_column = '' AND subset = '' THEN value END) AS mean_precision,
    MAX(CASE WHEN measure = 'mean_precision' AND average = 'macro' AND by_column = 'scene' AND subset = '' THEN value END) AS legacy_macro_precision_by_scene,
    MAX(CASE WHEN measure = 'AP' AND average = 'micro' AND by_column = '' AND subset = '' THEN value END) AS overall,
    MAX(CASE WHEN average = 'micro' AND by_column = '' AND subset = '' THEN empty END) AS total_queries_excluded
FROM aggregates GROUP BY run_id
) a ON a.run_id = runs.id
LEFT JOIN (SELECT run_id,
    MAX(CASE WHEN name = 'descriptor' THEN text END) AS descriptor,
    MAX(CASE WHEN name = 'keypoint_set' THEN text END) AS keypoint_set,
    MAX(CASE WHEN name = 'metadata' THEN text END) AS metadata,
    MAX(CASE WHEN name = 'tau' THEN number END) AS tau,
    MAX(CASE WHEN name = 'processing_time_ms' THEN number END) AS processing_time_ms,
    MAX(CASE WHEN name = 'true_map_micro' THEN number END) AS true_map_micro,
    MAX(CASE WHEN name = 'true_map_macro' THEN number END) AS true_map_macro,
    MAX(CASE WHEN name = 'true_map_macro_by_scene' THEN number END) AS true_map_macro_by_scene,
    MAX(CASE WHEN name = 'true_map_micro_including_zeros' THEN number END) AS true_map_micro_including_zeros,
    MAX(CASE WHEN name = 'true_map_macro_by_scene_including_zeros' THEN number END) AS true_map_macro_by_scene_including_zeros,
    MAX(CASE WHEN name = 'mean_average_precision' THEN number END) AS mean_average_precision,
    MAX(CASE WHEN name = 'viewpoint_map' THEN number END) AS viewpoint_map,
    MAX(CASE WHEN name = 'viewpoint_map_including_zeros' THEN number END) AS viewpoint_map_including_zeros,
    MAX(CASE WHEN name = 'illumination_map' THEN number END) AS illumination_map,
    MAX(CASE WHEN name = 'illumination_map_including_zeros' THEN number END) AS illumination_map_including_zeros,
    MAX(CASE WHEN name = 'keypoint_verification_ap' THEN number END) AS keypoint_verification_ap,
    MAX(CASE WHEN name = 'verification_viewpoint_ap' THEN number END) AS verification_viewpoint_ap,
    MAX(CASE WHEN name = 'verification_illumination_ap' THEN number END) AS verification_illumination_ap,
    MAX(CASE WHEN name = 'keypoint_retrieval_ap' THEN number END) AS keypoint_retrieval_ap,
    MAX(CASE WHEN name = 'retrieval_viewpoint_ap' THEN number END) AS retrieval_viewpoint_ap,
    MAX(CASE WHEN name = 'retrieval_illumination_ap' THEN number END) AS retrieval_illumination_ap,
    MAX(CASE WHEN name = 'image_matching_map' THEN number END) AS image_matching_map,
    MAX(CASE WHEN name = 'image_retrieval_map' THEN number END) AS image_retrieval_map,
    MAX(CASE WHEN name = 'precision_at_1' THEN number END) AS precision_at_1,
    MAX(CASE WHEN name = 'precision_at_5' THEN number END) AS precision_at_5,
    MAX(CASE WHEN name = 'precision_at_10' THEN number END) AS precision_at_10,
    MAX(CASE WHEN name = 'recall_at_1' THEN number END) AS recall_at_1,
    MAX(CASE WHEN name = 'recall_at_5' THEN number END) AS recall_at_5,
    MAX(CASE WHEN name = 'recall_at_10' THEN number END) AS recall_at_10,
    MAX(CASE WHEN name = 'mean_precision' THEN number END) AS mean_precision,
    MAX(CASE WHEN name = 'legacy_macro_precision_by_scene' THEN number END) AS legacy_macro_precision_by_scene,
    MAX(CASE WHEN name = 'retrieval_num_true_positives' THEN number END) AS retrieval_num_true_positives,
    MAX(CASE WHEN name = 'retrieval_num_hard_negatives' THEN number END) AS retrieval_num_hard_negatives,
    MAX(CASE WHEN name = 'retrieval_num_distractors' THEN number END) AS retrieval_num_distractors,
    MAX(CASE WHEN name = 'total_queries_processed' THEN number END) AS total_queries_processed,
    MAX(CASE WHEN name = 'total_queries_excluded' THEN number END) AS total_queries_excluded,
    MAX(CASE WHEN name = 'total_queries_failed' THEN number END) AS total_queries_failed
FROM wide_values GROUP BY run_id) w ON w.run_id = runs.id;

CREATE TRIGGER runs_stay
    BEFORE UPDATE OF id, uid, batch, rerun_of, name, task, dataset, model, status, message, created, updated, finished, seconds,
        n_queries, done, total, conventions, signature, search, command, folder, origin, git_commit, config, versions, seeds, data, timings ON runs
    WHEN OLD.status = 'finished'
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER runs_not_replaced
    BEFORE INSERT ON runs
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND (id = NEW.id OR uid = NEW.uid))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER aggregates_stay_insert
    BEFORE INSERT ON aggregates
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER aggregates_stay_delete
    BEFORE DELETE ON aggregates
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER blobs_stay_insert
    BEFORE INSERT ON blobs
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER blobs_stay_update
    BEFORE UPDATE ON blobs
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id, NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER blobs_stay_delete
    BEFORE DELETE ON blobs
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER shown_stay_insert
    BEFORE INSERT ON shown
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER shown_stay_update
    BEFORE UPDATE ON shown
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id, NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER shown_stay_delete
    BEFORE DELETE ON shown
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER runs_go_whole
    AFTER DELETE ON runs
    BEGIN DELETE FROM aggregates WHERE run_id = OLD.id; DELETE FROM blobs WHERE run_id = OLD.id; DELETE FROM shown WHERE run_id = OLD.id; DELETE FROM tags WHERE run_id = OLD.id; END;

CREATE TRIGGER aggregates_stay_update
    BEFORE UPDATE ON aggregates
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id, NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER wide_values_stay_insert
    BEFORE INSERT ON wide_values
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER wide_values_stay_update
    BEFORE UPDATE ON wide_values
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id, NEW.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER wide_values_stay_delete
    BEFORE DELETE ON wide_values
    WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN (OLD.run_id))
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

CREATE TRIGGER wide_values_go
    AFTER DELETE ON runs
    BEGIN DELETE FROM wide_values WHERE run_id = OLD.id; END;

CREATE TRIGGER runs_digest_stays
    BEFORE UPDATE OF digest, digest_from ON runs
    WHEN OLD.status = 'finished' AND OLD.digest <> ''
    BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END;

INSERT INTO assay_schema (version_num) VALUES ('0006')
