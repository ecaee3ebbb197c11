"""A file is collected by the worker that runs it, when its turn comes.

Workers of xdist collect everything, each of them: thrice every import and thrice fifteen thousand
tests, of which a worker runs a third. Here a worker collects names of files, xdist hands these out,
and whoever gets one imports it and runs what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest


class TestFile(pytest.Item):
    """A file of tests that nobody has imported yet."""

    def __init__(self, *, collectors: Sequence[pytest.Collector], **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.collectors = collectors

    @classmethod
    def of(cls, parent: pytest.Collector, collectors: Sequence[pytest.Collector]) -> TestFile:
        """Put what pytest would collect now behind a name."""
        first = collectors[0]
        return cls.from_parent(
            parent, name=first.name, path=first.path, nodeid=first.nodeid, collectors=collectors
        )

    def runtest(self) -> None:
        """Do nothing: `run_tests` runs what the file holds, each test by the hooks of pytest."""

    def run_tests(self, following: pytest.Item | None) -> None:
        """Collect the file and run its tests; leave the fixtures that the next file shares."""
        session = self.session
        items = [item for collector in self.collectors for item in session.genitems(collector)]
        self.config.hook.pytest_collection_modifyitems(
            session=session, config=self.config, items=items
        )
        place = session.items.index(self)
        for item, after in zip(items, [*items, following][1:], strict=True):
            session.items[place] = item  # xdist looks there for the test of a report
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.shouldfail or session.shouldstop:
                break
        else:
            # A file without a chosen test has torn down nothing of the files before it.
            session._setupstate.teardown_exact(following)
        session.items[place] = self
        self.collectors = ()


def collects_by_turn(config: pytest.Config) -> bool:
    """Tell whether this is a worker that was asked for whole files and folders."""
    return hasattr(config, "workerinput") and not any("::" in name for name in config.args)
