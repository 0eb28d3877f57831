import unittest

from calc import add


class CalcTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(1, 2), 3)

    def test_adds_wrongly(self):
        """Adds, with a description."""
        self.assertEqual(add(1, 2), 4, "sum\nof two")

    def test_raises(self):
        print("a word without a line's end", end="")
        {}["x"]

    @unittest.skip("later")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_table(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(i, 1)


class BrokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no database")

    def test_never(self):
        pass
