from pathlib import Path

import pytest

from rankrun.cluster.errors import RunFolderError
from rankrun.collectives.reading import read_records


def test_measurements_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    path.mkdir()
    with pytest.raises(RunFolderError, match=r"cannot read .*measurements\.jsonl: Is a directory"):
        list(read_records(path))
