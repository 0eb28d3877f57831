package reach

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/records"
)

// TestReadStrict has policies that two readers of JSON would understand differently.
func TestReadStrict(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"memory":{"limit_mb":512}}`: "",
		`{}`:                          "",
		`{"memory":{"limit_mb":512},"memory":null}`:             "/memory is given twice",
		`{"memory":{"limit_mb":512,"limit_mb":0}}`:              "/memory/limit_mb is given twice",
		`{"memory":{"limit_mb":512,"Limit_MB":0}}`:              "/memory/Limit_MB",
		`{"memory":{"limit_mb":512},"\u006demory":{}}`:          "/memory is given twice",
		`{"memory":{"limit_mb":512},"cpu":1}`:                   "cpu",
		`{"memory":{"limit_mb":512}} {"memory":{"limit_mb":1}}`: "something follows",
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		err := readStrict(httptest.NewRecorder(), r, &records.Resources{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("readStrict(%s) = %v, want %q", body, err, want)
		}
	}
}
