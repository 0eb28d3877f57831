package subids

import (
	"slices"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for name, test := range map[string]struct {
		text      string
		own, free int
	}{
		"empty":           {"", 0, 100000},
		"own":             {"eva:100000:65536\n", 100000, 165536},
		"by number":       {"1001:200000:65536\n", 200000, 265536},
		"another's":       {"adam:100000:65536\n", 0, 165536},
		"a longer name":   {"evan:100000:65536\n", 0, 165536},
		"the first":       {"eva:300000:65536\neva:100000:65536\n", 300000, 365536},
		"too few":         {"eva:100000:65535\neva:200000:70000\n", 200000, 270000},
		"only too few":    {"eva:100000:1000\n", 0, 101000},
		"broken":          {"eva\neva:x:65536\neva:1:\n:::\neva:100000:65536:1\neva:-5:65536\neva:0:65536\n", 0, 100000},
		"beyond all ids":  {"eva:4294967290:65536\n", 0, 100000},
		"without newline": {"eva:100000:65536", 100000, 165536},
	} {
		if own, free := scanRanges(strings.NewReader(test.text), []string{"1001", "eva"}); own != test.own || free != test.free {
			t.Errorf("%s: scan = %d, %d, want %d, %d", name, own, free, test.own, test.free)
		}
	}
}

func TestLines(t *testing.T) {
	for name, test := range map[string]struct {
		extents []extent
		want    string
	}{
		"a sandbox":               {sandboxMap(100000, 1234, 1000), "7 0 100000 1000 1000 1234 1 1001 101001 64535"},
		"of user 0":               {sandboxMap(100000, 1234, 0), "7 0 1234 1 1 100001 65535"},
		"a program of the host's": {identityMap(100000, 1234), "7 1234 1234 1 100000 100000 65536"},
	} {
		if got := commandLine(7, test.extents); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestMissing(t *testing.T) {
	const want = "/etc/subuid and /etc/subgid give user eva no 65536 ids in a row (run `usermod --add-subuids 165536-231071 --add-subgids 165536-231071 eva` as root)"
	if got := missingIDs("eva", 165536).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
