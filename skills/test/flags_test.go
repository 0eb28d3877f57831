package test

import (
	"slices"
	"testing"

	"github.com/spritekit/lattice/skills/test/results"
)

func TestFlagsWithAValueAreDroppedWithIt(t *testing.T) {
	t.Parallel()
	got := withoutValued([]string{"--reporter", "spec", "test/", "-R=dot", "--grep", "x", "-O", "a=b"}, "--reporter", "-R", "-O")
	if want := []string{"test/", "--grep", "x"}; !slices.Equal(got, want) {
		t.Errorf("withoutValued = %q, want %q", got, want)
	}
}

func TestListOfTestsIsBuiltAsTheTestsWere(t *testing.T) {
	t.Parallel()
	got := goListFlags([]string{"-vet=off", "-run", "TestX", "-tags", "a b", "-race", "-timeout", "5s", "-mod=mod", "./...", "example.com/x", "-args", "-tags=no"})
	if want := []string{"-vet=off", "-tags", "a b", "-race", "-mod=mod"}; !slices.Equal(got, want) {
		t.Errorf("goListFlags = %q, want %q", got, want)
	}
}

// A message of a compiler that names no file stays without one.
func TestNoFileIsNoPlace(t *testing.T) {
	t.Parallel()
	p := &project{}
	if got := p.resolveFile("", true); got != "" {
		t.Errorf("place of no file = %q", got)
	}
}

func TestCargoWithoutItsDependencies(t *testing.T) {
	t.Parallel()
	var set results.Set
	r := results.NewLibtest(&set)
	for _, line := range []string{"    Updating crates.io index", "error: failed to get `serde` as a dependency of package `x v0.1.0 (/w/repo)`", "", "Caused by:", "  download of config.json failed"} {
		r.Line(line)
	}
	r.Done()
	if len(set.Build) > 0 || set.Setup != "failed to get `serde` as a dependency of package `x v0.1.0 (/w/repo)`" {
		t.Errorf("build errors %v, setup %q", set.Build, set.Setup)
	}
}

func TestMinitest(t *testing.T) {
	t.Parallel()
	var set results.Set
	r := results.NewMinitest(&set)
	for _, line := range []string{
		"Run options: -v --seed 1", "TestA#test_good = 0.00 s = .", "TestA#test_bad = 0.00 s = F", "TestA#test_skip = 0.00 s = S", "TestA#test_err = 0.00 s = E",
		"", "  1) Failure:", "TestA#test_bad [test/test_a.rb:4]:", "Expected: 1", "  Actual: 2", "", "  2) Skipped:", "TestA#test_skip [test/test_a.rb:6]:", "later", "",
		"  3) Error:", "TestA#test_err:", "NoMethodError: undefined", "    test/test_a.rb:5:in `test_err'", "", "4 runs, 1 assertions, 1 failures, 1 errors, 1 skips",
	} {
		r.Line(line)
	}
	r.Done()
	if c := set.Counts; c.Total != 4 || c.Passed != 1 || c.Failed != 2 || c.Skipped != 1 {
		t.Errorf("counts %+v", c)
	}
	for i, want := range []results.Case{
		{ID: "TestA#test_bad", File: "test/test_a.rb", Line: 4, Kind: results.Assertion, Message: "Expected: 1"},
		{ID: "TestA#test_err", File: "test/test_a.rb", Line: 5, Kind: results.Panic, Message: "NoMethodError: undefined"},
	} {
		if got := set.Failing[i]; got.ID != want.ID || got.File != want.File || got.Line != want.Line || got.Kind != want.Kind || got.Message != want.Message {
			t.Errorf("failure %d = %+v, want %+v", i, got, want)
		}
	}
}
