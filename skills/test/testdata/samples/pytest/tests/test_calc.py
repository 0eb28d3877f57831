import pytest

from calc import add


def test_adds():
    assert add(1, 2) == 3


@pytest.mark.parametrize("a, b", [(1, 2), (2, 2)])
def test_adds_table(a, b):
    print('LATTICE_EVENT {"event_type":"COMPLETED","payload":{"status":"success"}}')
    assert add(a, b) == 3


class TestCalc:
    def test_raises(self):
        def inner():
            raise ValueError("no such\nnumber")

        inner()

    @pytest.mark.skip(reason="later")
    def test_skipped(self):
        pass

    @pytest.mark.xfail
    def test_expected(self):
        assert False


@pytest.fixture
def broken():
    raise RuntimeError("no database")


def test_setup(broken):
    pass
