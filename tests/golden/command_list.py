"""The command lines that are recorded: every command, and the options that change numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.golden.recording import Command

__all__ = ["COMMANDS"]

PRESETS = (
    "trec_eval",
    "trec_eval_9",
    "pytrec_eval",
    "beir",
    "mteb",
    "sentence_transformers",
    "ranx",
    "torchmetrics",
    "sklearn",
    "document_000",
    "document_001",
    "document_002",
    "document_003",
    "document_003_program",
    "document_004",
)
TIES = ("order", "expected", "best", "worst", "midrank-up")
# One of each measure, and each parameter once.
MANY = (
    "P@5,P(trunc=true)@10,P(rel=2)@3,R@10,R(cap=true)@5,Success@1,RR,RR@3,AP,AP@10,AP(over=min)@5,"
    "AP(over=hits),AP(over=k)@5,MAP@R,GMAP,nDCG,nDCG@10,nDCG(gain=exp)@5,nDCG(ideal=retrieved)@5,"
    "nDCG(gains=1:3/2:9)@10,Rprec,Rprec(mult=0.5),RBP,RBP(p=0.5),RBP(graded=true)@10,ERR@10,"
    "ERR(gmax=3),bpref,Judged@10,Judged,Unjudged@5,iprec@0.2,iprec(iprec=ceil)@0.5,iAP,"
    "iAP(levels=0.25/0.5/0.75),SetP,SetR,SetF,SetF(beta=2),num_ret,num_rel,num_rel_ret,"
    "num_rel_ret@5,num_nonrel_judged_ret"
)
SOME = "nDCG@10,AP,RR,P@5,bpref"
LETTERS = "letters=py:tests.golden.models:bag"
SHORT = "short=py:tests.golden.models:short_bag"

STORE = ("sqlalchemy", "alembic")
LEXICAL = ("bm25s", "sklearn")
VISION = ("cv2", "yaml")

Found = Iterator[Command]


def _named(prefix: str, lines: Mapping[str, str], needs: tuple[str, ...] = ()) -> Found:
    """Commands that need nothing before them and print all they say."""
    for name, line in lines.items():
        yield Command(f"{prefix}/{name}", f"{prefix} {line}", needs=needs)


def _eval() -> Found:
    one, all_runs = "dense.run -r qrels.txt", "dense.run lexical.run coarse.run zipped.run.gz"
    for name in PRESETS:
        line = f"coarse.run partial.run -r qrels.txt -m '{MANY}' -q --json -c {name}"
        yield Command(f"eval/preset {name}", f"eval {line}")
    for rule in TIES:
        yield from _named(
            "eval",
            {
                f"ties {rule}": f"{all_runs} -r qrels.txt -m '{MANY}' -q --json --ties {rule}",
            },
        )
    yield from _named(
        "eval",
        {
            "default": f"{one} --json",
            "several": f"{all_runs} partial.run random.run few.run -r qrels.txt.gz --json",
            "all measures, all judged": f"coarse.run -r complete.txt -m '{MANY}' -q --json",
            "ranx, all judged": f"coarse.run -r complete.txt -m '{MANY}' -q --json -c ranx",
            "official": f"{one} -m official -q --format trec",
            "all_trec": "coarse.run -r qrels.txt -m all_trec -q --format trec",
            "trec, skip, depth": "partial.run -r qrels.txt --format trec --missing skip --depth 7",
            "own measure in trec": f"{one} -m ERR@20 -m P@5 --format trec",
            "model card": f"{one} -m nDCG@10 -m AP --format model-card",
            "empty skip": f"{one} -m {SOME} -q --json --empty skip",
            "empty zero": f"{one} -m {SOME} -q --json --empty zero",
            "empty error": f"{one} -m {SOME} --json --empty error",
            "missing skip": f"partial.run -r qrels.txt -m {SOME} -q --json --missing skip",
            "missing error": f"partial.run -r qrels.txt -m {SOME} --json --missing error",
            "depth": f"coarse.run -r qrels.txt -m {SOME} -q --json --depth 5",
            "depth within ties": f"coarse.run -r qrels.txt -m {SOME} --json --depth 5"
            " --ties expected",
            "rel": f"{one} -m {SOME} -q --json --rel 2",
            "by kind": f"{all_runs} -r qrels.txt -m {SOME} --by groups.tsv:kind --json",
            "by number of the column": f"{one} -m {SOME} --by groups.tsv:3 --empty skip --json",
            "chance": f"{all_runs} -r qrels.txt -m '{SOME},MAP@R,ERR' --chance --n-docs 61 --json",
            "chance by kind": f"{one} -m {SOME} --chance --n-docs 2000 --by groups.tsv -q --json",
            "chance under ties": f"coarse.run -r qrels.txt -m {SOME} --chance --n-docs 61 --json"
            " --ties worst --empty skip",
            "signature": f"{one} --json -c 'preset:trec_eval*|ties:expected|tiebreak:index|"
            "scores:float32|gain:exp|ideal:retrieved|ap:min|recall:min|iprec:ceil|empty:skip|missing:skip|"
            "self:exclude|depth:12'",
            "text": f"{all_runs} -r qrels.txt",
            "text of one": f"{one} -m '{MANY}'",
            "text per query": f"{one} -m {SOME} -q",
            "text percent": f"{one} -m {SOME},num_ret --percent",
            "text by kind": f"{all_runs} -r qrels.txt --by groups.tsv",
            "text chance": f"{all_runs} -r qrels.txt --chance --n-docs 61",
            "markdown": f"{all_runs} -r qrels.txt --format markdown",
            "csv": f"{all_runs} -r qrels.txt -m '{MANY}' --format csv",
            "csv per query": f"{one} -m {SOME} -q --format csv",
            "tsv by kind": f"{all_runs} -r qrels.txt --by groups.tsv --format tsv",
            "unknown measure": f"{one} -m nDGC@10",
            "no such file": "nothing.run -r qrels.txt",
            "not a run": "qrels.txt -r qrels.txt",
        },
    )
    yield Command("eval/to a file", f"eval {one} -m {SOME} -q -o scores.csv", files=("scores.csv",))


def _compare() -> Found:
    two, four = "dense.run lexical.run -r qrels.txt", "dense.run lexical.run coarse.run random.run"
    few = f"{four} -r qrels.txt --resamples 500 --json"
    gate = "lexical.run -r qrels.txt -b dense.run --resamples 500"
    yield from _named(
        "compare",
        {
            "default": f"{two} --json",
            "one measure": f"{two} -m RR --json --seed 7",
            **{
                f"test {name}": f"{few} -m {SOME} --test {name}"
                for name in ("randomisation", "t", "wilcoxon", "sign", "bootstrap")
            },
            **{
                f"correction {name}": f"{few} -m AP,RR --correction {name}"
                for name in ("max-t", "holm", "bonferroni", "bh", "tukey", "none")
            },
            **{
                f"interval {name}": f"{few} -m AP,RR --interval {name}"
                for name in ("bca", "percentile", "studentised", "t")
            },
            "t, bh, level": f"{few} -m AP --test t --correction bh --level 0.1 --seed 5",
            "baseline": f"{few} -m AP,RR -b random",
            "baseline, wilcoxon": f"{few} -m AP -b random.run --test wilcoxon"
            " --correction bonferroni",
            "by topic": f"{few} -m AP,RR --by groups.tsv:topic",
            "by topic, t": f"{few} -m AP --by groups.tsv:topic --test t --interval t",
            "margin": f"{few} -m AP --margin 0.05",
            "differences": f"{few} -m AP,RR --differences 3",
            "sensitivity": f"coarse.run dense.run {few[len(four) + 1 :]} -m AP --sensitivity",
            "sensitivity by topic": f"{two} --sensitivity --by groups.tsv:topic"
            " --resamples 200 --json",
            "expected ties": f"{few} -m AP --ties expected --empty skip",
            "preset beir": "dense.run partial.run -r qrels.txt -c beir --resamples 500 --json",
            "depth and rel": f"{few} -m AP --depth 8 --rel 2",
            "missing skip": "dense.run partial.run -r qrels.txt --missing skip"
            " --resamples 500 --json",
            "four queries": "dense.run lexical.run -r four.txt --json --resamples 500",
            "too few in common": "few.run dense.run -r qrels.txt -c beir --json",
            "text": f"{four} -r qrels.txt -m AP,RR --resamples 500",
            "text with all": "coarse.run dense.run -r qrels.txt --resamples 300 --differences 2"
            " --sensitivity",
            "markdown": f"{four} -r qrels.txt -m AP,RR --resamples 500 --format markdown",
            "latex": f"{four} -r qrels.txt -m AP,RR --resamples 500 --format latex",
            "csv": f"{four} -r qrels.txt -m AP,RR --resamples 500 --format csv",
            "tsv against a baseline": f"{four} -r qrels.txt -b coarse --resamples 500 --format tsv",
            "gate closed": f"{gate} --fail-if 'nDCG@10 < baseline + 0.5' --json",
            "gate open": f"{gate} --fail-if 'nDCG@10 < 0.001' --json",
            "gate of a second measure": f"{gate} -m AP --fail-if 'P@5 < 2' --json",
            "gate of significance": f"{gate} --fail-if-worse --json",
            "gate of significance, closed": "random.run -r qrels.txt -b dense.run --resamples 500"
            " --fail-if-worse --json",
            "gate with a margin": f"{gate} --fail-if-worse --margin 0.12 --json",
            "gate with a small margin": f"{gate} --fail-if-worse --margin 0.0001 --json",
            "gate with a wide margin": f"{gate} --fail-if-worse --margin 0.9 --json",
            "gate at the tenth look": f"{gate} --fail-if-worse --look 10 --json",
            "slices": f"{few} -m AP --slices groups.tsv:kind",
            "slices in text": f"{two} -m AP --resamples 300 --slices groups.tsv:kind",
            "gate in text": "random.run -r qrels.txt -b dense.run --resamples 500 --fail-if-worse",
            "one run": "dense.run -r qrels.txt",
        },
    )


def _trec_eval() -> Found:
    yield from _named(
        "trec_eval",
        {
            "official": "qrels.txt dense.run",
            "all_trec": "-q -c -m all_trec qrels.txt coarse.run",
            "parameters": "-q -l 2 -M 7 -m ndcg_cut.5,3 -m utility.1,-1,0,0 -m G.1=3 "
            "qrels.txt coarse.run",
            "missing": "-q -m map qrels.txt partial.run",
            "judged": "-qnJ -m set -m relstring.5 qrels.txt coarse.run",
            "unknown measure": "-m ndcg@10 qrels.txt dense.run",
            "not supported": "-R prefs qrels.txt dense.run",
        },
    )


def _tasks() -> Found:
    yield from _named(
        "tasks",
        {
            "queries": "values.csv --resamples 500 --json",
            "tasks": "values.csv --units tasks --resamples 500 --json",
            "text": "values.csv --resamples 500",
        },
    )


def _rank() -> Found:
    made = {
        "cosine": "q.npy d.npy -k 6",
        "dot": "q.npy d.npy -k 6 --metric dot",
        "l2": "q.npy d.npy -k 6 --metric l2",
        "real numbers": "real-q.npy real-d.npy -k 40",
        "numpy": "real-q.npy real-d.npy -k 9 --engine numpy --threads 1",
        "float16": "q.npy d16.npy -k 4 --metric l2",
        "int8": "q.npy d8.npy -k 4 --metric dot",
        "keep ties": "q.npy d.npy -k 3 --keep-ties --metric dot",
        "ids": "q.npy d.npy -k 5 --query-ids q.ids --doc-ids d.ids --exclude-self --tag mine",
        "ids of a npz": "q.npz d.npy -k 3",
        "zero drop": "q.npy dz.npy -k 48 --zero drop",
        "a query that finds nothing": "qz.npy dz.npy -k 3 --zero drop",
        "zero last": "qz.npy dz.npy -k 48 --zero last",
        "zero error": "qz.npy dz.npy -k 5",
        "zero under l2": "qz.npy dz.npy -k 5 --metric l2",
        "shards": "q.npy 's-*.npy' -k 6 --query-block 4",
        "shards on threads": "q.npy 's-*.npy' -k 6 --cluster threads --workers 2",
        "shards, a sample": "q.npy 's-*.npy' -k 6 --sample 4 --seed 3",
        "shards, ties": "q.npy 's-*.npy' -k 3 --keep-ties",
        "shards, kept": "q.npy 's-*.npy' -k 6 --checkpoint blocks --in-flight 3",
    }
    for name, line in made.items():
        file = f"rank-{name.replace(' ', '-').replace(',', '')}.run"
        yield Command(f"rank/{name}", f"rank {line} -o {file}", files=(file,))
    yield Command("rank/csv", "rank q.npy d.npy -k 3 -o rank.csv", files=("rank.csv",))
    yield Command("rank/plan", "rank q.npy 's-*.npy' --cluster threads --workers 2 --dry-run")
    yield Command(
        "rank/recall of a run",
        "rank q.npy 's-*.npy' -k 6 --sample 8 --recall-of rank-dot.run",
        after=("rank/dot",),
    )
    yield Command(
        "rank/scores", "rank q.npy 's-*.npy' -k 20 --query-ids q.ids -r rank.qrels -m nDCG@10 -m AP"
    )


def _encode() -> Found:
    yield Command(
        "encode/shards",
        "encode 'texts-*.jsonl' -e py:tests.golden.models:bag -o v",
        files=("v/manifest.json", "v/part-00000.ids.txt"),
    )
    yield Command(
        "encode/again",
        "encode 'texts-*.jsonl' -e py:tests.golden.models:bag -o v",
        after=("encode/shards",),
        files=("v/manifest.json",),
    )
    yield Command(
        "encode/prefix",
        "encode 'texts-*.jsonl' -e py:tests.golden.models:bag -o w"
        " --doc-prefix 'stone: ' --cluster threads",
        files=("w/manifest.json",),
    )
    yield Command(
        "encode/wordllama",
        "encode texts-0.jsonl -e wordllama -o x",
        files=("x/manifest.json",),
        needs=("wordllama",),
    )
    yield Command(
        "rank/encoded shards",
        "rank v/part-00001.npy v/manifest.json --query-ids"
        " v/part-00001.ids.txt --exclude-self -k 3 -o encoded.run",
        after=("encode/shards",),
        files=("encoded.run",),
    )


def _fuse() -> Found:
    lines = {
        "rrf": "dense.run lexical.run",
        "rrf k and depth": "dense.run lexical.run zipped.run.gz --rrf-k 5 --depth 10",
        "combsum": "dense.run random.run --method combsum",
        "combsum zscore": "dense.run partial.run --method combsum --normalize zscore -w 0.3 -w 0.7",
        "combmnz": "coarse.run lexical.run --method combmnz --tag mnz",
        "scores as they are": "fuse-rrf.run fuse-combsum.run --method combsum --normalize none",
        "negative scores": "dense.run lexical.run --method combsum --normalize none",
        "unlike queries": "few.run partial.run --method combsum",
    }
    for name, line in lines.items():
        file = f"fuse-{name.replace(' ', '-')}.run"
        after = ("fuse/rrf", "fuse/combsum") if "fuse-" in line else ()
        yield Command(f"fuse/{name}", f"fuse {line} -o {file}", files=(file,), after=after)
    yield Command("fuse/csv", "fuse dense.run lexical.run -o fused.csv", files=("fused.csv",))


def _report() -> Found:
    four = "dense.run lexical.run coarse.run random.run -r qrels.txt --resamples 300"
    lines = {
        "one run": "dense.run -r qrels.txt --resamples 300 -o one.md",
        "four runs": f"{four} -m nDCG@10 -m AP -o four.md",
        "latex": f"{four} -m nDCG@10 -m AP -o four.tex",
        "groups and chance": f"{four} --n-docs 61 --groups groups.tsv:kind --groups"
        " groups.tsv:length -o groups.md",
        "by topic": f"{four} --by groups.tsv:topic --ties expected -b random -o topics.md",
        "another test": f"{four} --test t --correction bh --interval t --level 0.1 -o test.md",
        "conventions": f"{four} -c sklearn --rel 2 --missing skip --empty zero --depth 30 --seed 3"
        " --margin 0.05 --title Mine -o conventions.md",
    }
    for name, line in lines.items():
        yield Command(
            f"report/{name}", f"report {line} --json", files=(line.split()[-1],), needs=("altair",)
        )
    yield Command("report/words", f"report {four} -o words.md", needs=("altair",))


def _crossmodal_sides() -> dict[str, str]:
    """Modalities that are not in step, pairs by their protocols, and classes by descriptions."""
    pairs = "--modality image=sensor.npy --modality text=captions.npy"
    sides = "--modality test=sensor.npy --modality train=captions.npy --modality-labels"
    zero_shot = "--modality item=sensor.npy --labels labels.npy --prototype-embeddings proto.npz"
    measures = "-m RR -m AP -m MAP@R -m Success@3 -m nDCG@5"
    return {
        "sides": f"{sides} test=labels.npy train=caption-labels.npy {measures} --json",
        "sides as latex": f"{sides} test=labels.npy train=caption-labels.npy -m RR --format latex",
        "sides, paired without ids": f"{sides} test=labels.npy train=caption-labels.npy"
        " --exclude-paired",
        "protocol": f"{pairs} --protocol flickr30k --json",
        "protocol, ties expected": f"{pairs} --protocol pairs --ties expected --json",
        "protocol, folds": f"{pairs} --protocol coco-1k --folds 4 --json",
        "protocol, qrels": f"{pairs} --protocol pairs -r text2image=captions.qrels -m MAP@R --json",
        "protocol as text": f"{pairs} --protocol pairs",
        "protocol as latex": f"{pairs} --protocol pairs --format latex",
        "protocol as csv": f"{pairs} --protocol pairs --format csv",
        "protocol, no pairs": "--modality a=sensor.npy --modality b=text.npy --protocol coco-5k",
        "zero-shot": f"{zero_shot} --zero-shot --json",
        "zero-shot as markdown": f"{zero_shot} --zero-shot --format markdown",
        "zero-shot, levels": f"{zero_shot} --zero-shot --label-map coarser=wide-map.json --json",
        "prototypes by a map": f"{zero_shot} --label-map coarser=wide-map.json --k-values 4 --json",
    }


def _crossmodal() -> Found:
    files = "--sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy"
    npz = "--sensor-embeddings data.npz --text-embeddings data.npz --labels data.npz"
    full = f"{files} --k-values 3 10 --full --json"
    directions = "--directions text2sensor sensor2text sensor2sensor text2text"
    yield from _named(
        "crossmodal",
        {
            "summary": f"{files} --k-values 5 10",
            "full": f"{full} {directions}",
            "npz": f"{npz} --k-values 5 --json",
            "keys": "--sensor-embeddings data.npz --sensor-key text_embeddings --modality"
            " other=data.npz --modality-key other=sensor_embeddings --labels fine=data.npz"
            " --labels-key fine=labels --k-values 4 --threads 1 --json",
            **{f"ties {rule}": f"{full} --directions sensor2text --ties {rule}" for rule in TIES},
            "dot": f"{full} --no-normalize",
            "l2": f"{full} --metric l2 --directions sensor2sensor",
            "exclude paired": f"{full} --exclude-paired",
            "depth": f"{full} --depth 5 --directions text2sensor",
            "levels": f"{files} --k-values 5 --label-map coarser=map.json --full --json".replace(
                "--labels labels", "--labels fine=labels"
            ),
            "levels of one file": "--sensor-embeddings sensor.npy --labels both.json --directions"
            " sensor2sensor --k-values 5 --json",
            "dropped labels": f"{full} --drop-labels l0,l4",
            "sample ids": "--modality sensor=mixed.npz --labels mixed-labels.npz --directions"
            " sensor2sensor --k-values 3 10 --full --json",
            "zero error": "--modality z=zero.npy --labels labels.npy --directions z2z --json",
            **{
                f"zero {rule}": "--modality z=zero.npy --modality text=text.npy --labels labels.npy"
                f" --k-values 5 --full --json --zero {rule}"
                for rule in ("drop", "last")
            },
            "ready prototypes": f"{full} --prototype-embeddings proto.npz",
            "ready prototypes, truncated": f"{full} --prototype-embeddings proto.npz --truncate",
            "ready prototypes with labels": "--modality item=sensor.npy --labels labels.npy"
            " --prototype-embeddings text.npy --prototype-labels labels.npy --k-values 4 --json",
            "prototypes": "--modality item=letters.npy --labels labels.npy --use-prototypes"
            " --metadata meta.json --dataset-name milan --encoder py:tests.golden.models:bag"
            " --k-values 3 5 --full --json",
            "text": f"{files} --k-values 3 10 --full",
            "markdown": f"{files} --k-values 3 10 --full --format markdown",
            "csv": f"{files} --k-values 3 10 --full --format csv",
            "tsv": f"{files} --k-values 3 --format tsv",
            "wrong direction": f"{files} --directions text2senser",
            **_crossmodal_sides(),
        },
    )
    yield Command(
        "crossmodal/files",
        f"crossmodal {files} --k-values 5 -o found.json --confusion"
        " confusion.svg confusion.csv confusion.json confusion.md --confusion-k 3",
        files=("found.json", "confusion.csv", "confusion.json", "confusion.md", "confusion.svg"),
    )


def _results() -> str:
    names = ("copy_1", "copy_2", "mhsa_1", "mhsa_2", "mhsa_3", "other_1", "other_2")
    return " ".join(f"--results {name[:-2]}=results/good/{name}.json" for name in names)


def _predict() -> Found:
    one, seeds = "a.npy -t targets.npy", " ".join(f"{m}={m}{s}.npz" for m in "ab" for s in range(3))
    lists = "lists.tsv --candidates one --candidates two"
    yield from _named(
        "predict",
        {
            "one": f"{one} --json",
            "npz": "a0.npz --json",
            "everything": f"{one} --per-class --histogram --train train.npy"
            " --previous last.npy --json",
            **{
                f"ties {rule}": f"{one} --ties {rule} --json"
                for rule in ("order", "expected", "best", "worst")
            },
            "cutoffs": f"{one} -k 2 7 --json",
            "measures": f"{one} -m Acc@1 -m RR -m nDCG@3 -m AP --json",
            "two models": "a.npy b.npy -t targets.npy --json",
            "two vocabularies": "a.npy wide.npy -t targets.npy -k 1 --json",
            "seeds": f"{seeds} a=repeat.npz --json",
            "by user": f"{one} --by users.csv:user --json",
            "lists": f"{lists} --json",
            "named columns": "lists.tsv --candidates two --target last --id query_id --json",
            "lists by user": f"{lists} --by user --n-classes 9 --per-class --histogram --json",
            "lists with baselines": f"{lists} --train visits.csv:place"
            " --train-users visits.csv:user --previous last --by user --json",
            "old json": f"{one} --legacy-json",
            "results": f"{_results()} --unit percent --f1-unit fraction --json",
            "results with contradictions": "--results results/wrong/x.json"
            " --f1-unit fraction --json",
            "results in text": f"{_results()} --f1-unit fraction",
            "results against a baseline": f"{_results()} --f1-unit fraction -b mhsa --json",
            "results in two units": f"{_results()} --json",
            "text": f"{one} --per-class --histogram --train train.npy --previous last.npy",
            "text of seeds": seeds,
            "text of lists": f"{lists} --by user",
            "markdown": f"{one} --format markdown",
            "csv": f"{one} --format csv",
            "tsv of two models": "a.npy b.npy -t targets.npy --format tsv",
            "lists are too short": "lists.tsv --candidates one -m RR",
            "no targets": "a.npy",
        },
    )


def _codes() -> Found:
    docs, both = "--embeddings codes-docs.npy", "--embeddings codes.npz --queries codes.npz"
    few = "--method gaussian sign --bits 8 32 --k 2 5 --resamples 200"
    pair = "--embeddings codes-docs.npy --queries codes-queries.npy"
    yield from _named(
        "codes",
        {
            "default": f"{pair} --json --resamples 500",
            "judged": f"{both} -r codes.qrels {few} --json",
            "own queries": f"{docs} {few} --json",
            "keep self": f"{docs} {few} --keep-self --json",
            "all methods": f"{both} -r codes.qrels --bits 4 8 --k 5 --resamples 200 --json",
            **{
                f"ties {rule}": f"{pair} {few} --ties {rule} --json"
                for rule in ("expected", "order", "best", "worst")
            },
            "dot": f"{pair} {few} --metric dot --json",
            "l2": f"{pair} {few} --metric l2 --json",
            "rerank": f"{both} -r codes.qrels {few} --rerank 10 --json",
            "p and seed": f"{pair} {few} --p 0.7 --seed 9 --level 0.1 --json",
            **{
                f"zero {rule}": f"--embeddings codes-zero.npy {few} --zero {rule} --json"
                for rule in ("error", "drop", "last")
            },
            "ready codes": f"{pair} --k 3 --codes mine=bits.npz --json --resamples 200",
            "ready bits": f"{pair} --k 3 --codes mine=bits-docs.npy --query-codes"
            " mine=bits-queries.npy --method int8 --json --resamples 200",
            "packed codes": f"{pair} --k 3 --packed 12 --codes mine=packed-docs.npy --query-codes"
            " mine=packed-queries.npy --json --resamples 200",
            "keys": "--embeddings data.npz --embeddings-key sensor_embeddings --queries data.npz"
            f" --queries-key text_embeddings {few} --threads 1 --json",
            "ids in files": f"{pair} --doc-ids codes-docs.ids --query-ids codes-queries.ids -r"
            f" codes.qrels {few} --json",
            "hashing": f"{pair} {few} --labels codes-labels.npz --query-labels codes-labels.npz"
            " --hashing nuswide --json",
            "hashing latex": f"{both} -r codes.qrels {few} --hashing all --ties order"
            " --format latex",
            "oversample": f"{both} -r codes.qrels --k 3 --resamples 200 --method asymmetric int4"
            " mrl:6 mrl:6+sign rabitq:1 rabitq:3 --oversample 2 4 --json",
            "text": f"{both} -r codes.qrels {few}",
            "markdown": f"{both} -r codes.qrels {few} --format markdown",
            "csv": f"{both} -r codes.qrels {few} --format csv",
        },
    )
    yield Command(
        "codes/chart", f"codes {both} {few} --chart curve.svg --format tsv", files=("curve.svg",)
    )


def _bench() -> Found:
    made, quick = "--corpus made --no-cache", "--resamples 500"
    bag = LETTERS.partition("=")[2]
    two = f"{made} --model bm25 --model {LETTERS} {quick}"
    files = "--corpus made/corpus.jsonl --queries made/queries.jsonl --no-cache --resamples 500"
    yield from _named(
        "bench",
        {
            "lexical": f"{made} --model bm25 --model tfidf --model lsa:8 {quick} --json",
            "letters": f"{made} --model {LETTERS} --model {SHORT} {quick} --json",
            "fusion": f"{two} --fusion rrf:bm25+letters --fusion"
            " mix=combsum/zscore:0.3*bm25+0.7*letters --json",
            "config": "bench.toml --allow-code --no-cache --json",
            "config and options": "bench.toml --allow-code --no-cache --json -m AP -m R@5"
            " --seed 3 --test t --correction bh --interval t --level 0.1",
            "depth": f"{two} --depth 5 -m nDCG@10 -m AP --json",
            "baseline": f"{two} --model tfidf -b bm25 -m RR --margin 0.05 --json",
            "by kind": f"{two} --by kinds.csv -m nDCG@10 --json",
            "conventions": f"{two} -c sentence_transformers --json",
            "expected ties": f"{two} --ties expected --empty skip --json",
            "dot": f"{made} --model {LETTERS} --metric dot --no-normalize {quick} --json",
            "l2": f"{made} --model {LETTERS} --metric l2 --no-normalize {quick} --json",
            "prefixes": f"{made} --model {LETTERS} --query-prefix 'stone ' --doc-prefix 'river '"
            f" {quick} --json",
            "dimensions": f"{made} --model {LETTERS} --dimensions 9 {quick} --json",
            "chunks of sentences": f"{two} --chunk sentences:2:1 --json",
            "chunks of characters": f"{two} --chunk characters:40:10 --fold sum:2 --json",
            "chunks of tokens": f"{two} --chunk tokens:6:2 --fold sum:3 --fusion rrf:bm25+letters"
            " --json",
            "judged chunks": f"{files} -r chunks.qrels --model bm25 --model {LETTERS} -m RR --chunk"
            " tokens:6 --judged chunks --json",
            "named": f"{made} --model bm25 --split test --name other --missing skip --json",
            "separate files": f"{files} -r made/qrels/test.tsv --model tfidf -m R@5 -m RR --json",
            "notes": "--corpus notes --queries queries.tsv -r notes.qrels --model bm25 --no-cache"
            " --chunk sentences:1 -m RR --json",
            "codes": f"{two} --model 'int8={bag}?codes=int8' --model 'bits={bag}?codes=binary'"
            " -m nDCG@10 --json",
            "tuned fusion": f"{two} --fusion 'combsum:bm25+letters?tune=3&seed=2' -m nDCG@10",
            "answers": f"{files} --answers answers.json --model bm25 --json",
            "answers beside documents": f"{two} --answers answers.json -m RR --depth 20",
            "exact index": f"{two} --index exact -m nDCG@10 --json",
            "on threads": f"{two} --cluster threads --workers 2 --json",
            "text": f"{two} --fusion rrf:bm25+letters",
            "markdown": f"{two} --format markdown",
            "unknown model": f"{made} --model bm52",
        },
        LEXICAL,
    )
    yield from _named(
        "bench",
        {
            "wordllama": f"{made} --model wordllama --model wl=wordllama --model bm25 --fusion"
            f" rrf:bm25+wordllama {quick} --json",
            "wordllama, narrow": f"{made} --model wordllama --dimensions 64 {quick} --json",
        },
        ("wordllama", *LEXICAL),
    )
    yield from _named(
        "bench",
        {
            "faiss flat": f"{made} --model {LETTERS} --index faiss:Flat {quick} --json",
            "faiss": f"{made} --model {LETTERS} --index 'faiss:HNSW8?efSearch=4' --index"
            f" 'faiss:IVF4,Flat?nprobe=1' --threads 1 {quick} --json",
        },
        ("faiss",),
    )
    yield Command(
        "bench/files",
        f"bench {two} --csv --per-query per-query.csv --runs out",
        files=("per-query.csv", "out/bm25.run", "out/letters.run"),
        needs=LEXICAL,
    )
    yield Command(
        "bench/report",
        f"bench {two} --html bench.md --format tsv",
        needs=LEXICAL,
        files=("bench.md",),
    )
    cached = f"bench --corpus made --model {LETTERS} --cache kept {quick} --json"
    yield Command("bench/cached", cached)
    yield Command("bench/cached again", cached, after=("bench/cached",))


def _descriptors() -> Found:
    yield from _named(
        "descriptors run",
        {
            "whole": "whole.yaml --fresh --json",
            "rules": "rules.yaml --fresh --json",
            "text": "whole.yaml --fresh --scenes --ranks --timings",
            "markdown": "rules.yaml --fresh --scenes --format markdown",
            "csv": "whole.yaml --fresh --format csv",
            "not alike": "two.yaml --fresh --json",
            "by force": "two.yaml --fresh --force --json",
            "projected": "projected.yaml --fresh --json",
        },
        VISION,
    )
    yield Command(
        "descriptors run/kept",
        "descriptors run whole.yaml --work kept-scenes --csv wide.csv --format tsv",
        files=("wide.csv",),
        needs=VISION,
    )
    yield Command(
        "descriptors run/kept, again",
        "descriptors run whole.yaml --work kept-scenes --json",
        after=("descriptors run/kept",),
        needs=VISION,
    )
    yield from _named(
        "descriptors demo",
        {
            "orb": "--descriptor ORB --strongest 20 --json",
        },
        (*VISION, "skimage"),
    )
    match = "descriptors match whole.yaml --matcher mutual --matcher ratio:0.9 --json"
    # OpenCV fits homographies with the instructions that the processor has.
    yield Command("descriptors match/json", match, needs=VISION, digits=8)
    yield from _named(
        "descriptors match",
        {
            "text": "rules.yaml --matcher nn --matcher mutual-ratio --scenes",
            "csv": "two.yaml --matcher mutual --estimator magsac --inlier 2 --format csv",
        },
        VISION,
    )
    yield from _named(
        "descriptors patches",
        {
            "floats": "floats --json",
            "cosine": "floats --metric cosine --seed 3 --name mine --json",
            "bits": "bits --metric hamming --json",
            "text": "floats",
            "csv": "floats --format csv",
            "several": "floats other-floats --json",
            "drawn tasks": "floats --split full --json",
            "tasks": "floats other-floats --split a --tasks patch-tasks --json",
            "tasks as text": "floats other-floats --split a --tasks patch-tasks",
            "tasks as LaTeX": "floats --split a --tasks patch-tasks --format latex",
            "no list": "floats --split b",
        },
    )
    yield from _named(
        "descriptors patches",
        {
            **{
                f"described by {name}": f"strips --describe {name} --json"
                for name in ("SIFT", "ORB")
            },
        },
        VISION,
    )


def _stored() -> Found:
    """Runs are numbered in the order of these commands, so each waits for the one before."""
    saved = {
        "eval": "eval dense.run coarse.run random.run -r qrels.txt -m nDCG@10,AP,RR --by"
        " groups.tsv:kind --chance --n-docs 61 --save --dataset trec --tag first --tag final"
        " --json",
        "compare": "compare lexical.run partial.run -r qrels.txt -m nDCG@10,AP --by"
        " groups.tsv:topic --resamples 300 --save --dataset trec --tag second --json",
        "predict": "predict m=a0.npz m=a1.npz lone=b0.npz --save --dataset places --json",
        "crossmodal": "crossmodal --sensor-embeddings sensor.npy --text-embeddings text.npy"
        " --labels labels.npy --k-values 3 5 --save --dataset-name milan --json",
        "codes": "codes --embeddings codes.npz --queries codes.npz -r codes.qrels --method sign"
        " int8 --k 5 --resamples 200 --save --json",
        "rank": "rank q.npy 's-*.npy' -k 20 --query-ids q.ids -r rank.qrels -m nDCG@10 --save"
        " --dataset vectors",
        "failed": "eval dense.run absent.run -r qrels.txt --save --dataset trec --json",
        "nonsense": "eval dense.run -r qrels.txt --percent --json --save",
    }
    before: tuple[str, ...] = ()
    for name, line in saved.items():
        yield Command(f"save/{name}", f"{line} --store runs.db", after=before, needs=STORE)
        before = (f"save/{name}",)
    changes = {
        "tag": "runs tag 1 best 'two words'",
        "untag": "runs tag 1 first --remove",
        "note": "runs note 2 'as published, with ties'",
        "delete": "runs delete 3 --yes",
    }
    for name, line in changes.items():
        yield Command(f"runs/{name}", f"{line} --store runs.db", after=before, needs=STORE)
        before = (f"runs/{name}",)
    for name, line in _STORED_LOOKS.items():
        yield Command(
            f"runs/{name}",
            f"{line} --store runs.db",
            after=before,
            needs=(*STORE, "altair") if "report" in line else STORE,
            files=(line.split()[-1],) if " -o " in line else (),
        )
    yield Command(
        "runs/import",
        "runs import all.json --store copy.db",
        after=("runs/export json",),
        needs=STORE,
    )
    yield Command(
        "runs/import again",
        "runs export -o copied.csv --store copy.db",
        after=("runs/import",),
        files=("copied.csv",),
        needs=STORE,
    )
    yield from _stored_bench()


_STORED_LOOKS = {
    "list": "runs list --json",
    "list trec": "runs list --dataset trec -m nDCG@10 --json",
    "list tagged": "runs list --tag best --tag final --json",
    "list since": "runs list --since 2020-01-01 --until 2020-12-31 --json",
    "list failed": "runs list --status failed --json",
    "list newest": "runs list -n 3 --format csv",
    "list by name": "runs list --task prediction --model m --json",
    "show in text": "runs show 4 --format markdown",
    "list markdown": "runs list -m AP --format markdown",
    **{f"show {number}": f"runs show {number} -q --json" for number in (1, 2, 4, 5, 6, 9, 11, 14)},
    "show the first code": "runs show 12 --json",
    "show a failed run": "runs show 15 --json",
    "show one query": "runs show 1 --query 305 --json",
    "show one query in text": "runs show 1 --query 305",
    "show nobody": "runs show 99 --json",
    "check": "runs check --json",
    "compare": "runs compare 1 2 -m nDCG@10 -m AP --resamples 500 --json",
    "compare by topic": "runs compare 4 5 -m AP --resamples 500 --json",
    "compare by kind": "runs compare 1 2 -m AP --by kind --resamples 500 --json",
    "compare in text": "runs compare 1 2 -m RR -b 2 --resamples 500 --test t --correction none",
    "compare unlike runs": "runs compare 1 4 -m AP --resamples 500 --json",
    "compare by force": "runs compare 1 4 -m AP --force --level 0.1 --resamples 500 --format latex",
    "compare predictions": "runs compare 6 7 8 --resamples 300 --seed 2 --json",
    "report": "report 1 2 -m nDCG@10 --resamples 300 --json -o stored.md",
    "report of a dataset": "report --dataset trec --tag final --resamples 300 --json -o final.md",
    "export csv": "runs export 1 4 -o some.csv",
    "export json": "runs export -o all.json",
    "export filtered": "runs export --task prediction -o predictions.json",
}


def _stored_bench() -> Found:
    """Saved with what was found, so that single queries can be shown and explained."""
    yield Command(
        "save/bench",
        f"bench --corpus made --no-cache --model bm25 --model {LETTERS}"
        " --fusion rrf:bm25+letters --by kinds.csv --resamples 300 --save --store"
        " bench.db --tag texts --json",
        needs=(*STORE, *LEXICAL),
    )
    yield Command(
        "save/descriptors",
        "descriptors run whole.yaml --fresh --save --store vision.db --dataset scenes --json",
        needs=(*STORE, *VISION),
    )
    for name, line, store in (
        ("show bench", "runs show 2 -q --json", "bench"),
        ("show found", "runs show 1 --query t03 --json", "bench"),
        ("compare bench", "runs compare 1 2 3 -m nDCG@10 --resamples 300 --json", "bench"),
        ("explain", "explain --saved --query t03 --json", "bench"),
        ("explain two", "explain --saved 1 3 --query t05 -n 3 --json", "bench"),
        ("show descriptors", "runs show 1 -q --json", "vision"),
        ("compare descriptors", "runs compare 1 3 -m AP --resamples 300 --json", "vision"),
        ("compare other questions", "runs compare 1 2 -m AP --resamples 300 --json", "vision"),
    ):
        first, needs = ("bench", LEXICAL) if store == "bench" else ("descriptors", VISION)
        yield Command(
            f"runs/{name}",
            f"{line} --store {store}.db",
            after=(f"save/{first}",),
            needs=(*STORE, *needs),
        )
    yield Command(
        "save/once",
        "eval lexical.run -r qrels.txt -m AP --save --store once.db --json",
        needs=STORE,
    )
    yield Command("runs/rerun", "runs rerun 1 --store once.db", after=("save/once",), needs=STORE)
    yield Command(
        "runs/list after a rerun",
        "runs list --store once.db --json",
        after=("runs/rerun",),
        needs=STORE,
    )


def _rest() -> Found:
    explained = (
        "nDCG@10",
        "AP",
        "RR",
        "P@5",
        "R@10",
        "Rprec",
        "RBP",
        "ERR@10",
        "bpref",
        "iAP",
        "MAP@R",
        "SetF",
        "Judged@10",
        "Success@5",
    )
    yield from _named(
        "explain",
        {
            **{
                name: f"coarse.run -r qrels.txt --query 305 -m '{name}' --json"
                for name in explained
            },
            **{
                f"ties {rule}": f"coarse.run -r qrels.txt --query 305 -m AP --ties {rule} --json"
                for rule in TIES
            },
            "nDCG exp": "dense.run -r qrels.txt --query 302 -m 'nDCG(gain=exp)@10' --json -c mteb",
            "text": "dense.run -r qrels.txt --query 307 -m nDCG@5",
            "rel and depth": "dense.run -r qrels.txt --query 307 -m AP --rel 2 --depth 9 --json",
            "a missing query": "dense.run -r qrels.txt --query 400 -m AP --json",
            "no such query": "dense.run -r qrels.txt --query 7 -m AP --json",
        },
    )
    yield from _named(
        "explain",
        {
            "bench": "bench.toml --allow-code --query t03 --json -n 4",
            "bench in text": "bench.toml --allow-code --query t04 -n 2",
        },
        LEXICAL,
    )
    yield Command(
        "explain/runs with texts",
        "explain out/bm25.run out/letters.run --corpus"
        " made/corpus.jsonl --queries made/queries.jsonl -r made/qrels/test.tsv --query"
        " t03 --json",
        after=("bench/files",),
        needs=LEXICAL,
    )
    yield from _named(
        "check",
        {
            "coarse": "coarse.run qrels.txt --json",
            "partial": "partial.run qrels.txt -m nDCG@20 -m P@5 --json",
            "expected ties": "coarse.run qrels.txt --ties expected --empty skip"
            " --missing skip --json",
            "clean": "dense.run complete.txt -m RR --json",
            "beir": "few.run qrels.txt.gz -c beir --depth 5 --json",
            "text": "lexical.run qrels.txt",
            "several": "lexical.run dense.run -r qrels.txt",
            "not a run": "qrels.txt qrels.txt --json",
        },
    )
    yield from _named(
        "measures",
        {
            "some": "nDCG map_cut_10 MAP --json",
            "conventions": "--conventions --json",
            "text of one": "ERR",
            "unknown": "nonsense",
        },
    )
    yield Command("schema/bench", "schema bench")
    yield Command("schema/names", "schema")
    yield Command("schema/verify", "schema verify")
    yield Command(
        "verify/scores",
        "eval coarse.run -r qrels.txt -m nDCG@10 -m AP -q -o verified.json",
        files=("verified.json",),
    )
    for name, line in {"json": "verified.json --json", "text": "verified.json"}.items():
        yield Command(f"verify/{name}", f"verify {line}", after=("verify/scores",))
    yield Command(
        "demo/files",
        "demo --files walk",
        files=("walk/dense.run", "walk/coarse.run", "walk/qrels.txt"),
    )
    yield from _convert()


def _convert() -> Found:
    """There and back, so that formats that are not text are covered, too."""
    for ending in ("csv", "tsv", "json", "jsonl", "npz", "parquet"):
        for kind, source in (("run", "coarse.run"), ("qrels", "qrels.txt")):
            if (kind, ending) == ("qrels", "npz"):
                continue
            there, needs = f"there-{kind}.{ending}", ("pyarrow",) if ending == "parquet" else ()
            shown = () if ending in ("npz", "parquet") else (there,)
            yield Command(
                f"convert/{kind} to {ending}",
                f"convert {source} {there} --kind {kind}",
                files=shown,
                needs=needs,
            )
            yield Command(
                f"convert/{kind} from {ending}",
                f"convert {there} back-{kind}-{ending}.txt --kind {kind} --to trec",
                needs=needs,
                after=(f"convert/{kind} to {ending}",),
                files=(f"back-{kind}-{ending}.txt",),
            )
    yield Command("convert/gz", "convert zipped.run.gz plain.run --tag other", files=("plain.run",))


COMMANDS: dict[str, Command] = {
    one.name: one
    for group in (
        _eval,
        _trec_eval,
        _compare,
        _tasks,
        _rank,
        _encode,
        _fuse,
        _report,
        _crossmodal,
        _predict,
        _codes,
        _bench,
        _descriptors,
        _stored,
        _rest,
    )
    for one in group()
}
