package dashboard

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestDescribeReport: the report of a verification names each command, its outcome, and a test that failed.
func TestDescribeReport(t *testing.T) {
	r := &protocol.VerifyReport{Restored: []string{"check.sh"}, Commands: []protocol.VerifyCommand{
		{Argv: []string{"go", "vet", "./..."}, Status: "passed"},
		{Argv: []string{"go", "test"}, Status: "failed", Failures: []protocol.VerifyFailure{{ID: "TestA"}, {ID: "TestB"}}},
	}}
	if got, want := describeReport(r), "go vet ./...: passed; go test: failed (2 failed, such as TestA); 1 protected files were restored"; got != want {
		t.Errorf("the report is %q, want %q", got, want)
	}
	if got := describeReport(nil); got != "" {
		t.Errorf("without a report it is %q", got)
	}
	text := get(t, &crowd{size: 1000}, "/loops/run_1")
	if n := strings.Count(text, "<th "); n != 10 {
		t.Errorf("the iterations have %d columns", n)
	}
}
