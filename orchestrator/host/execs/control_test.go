package execs

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Arguments of an operation mean the same as an object, with numbers as they were written, and as a query.
func TestDecodeArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want url.Values // nil for a refusal
	}{
		{`{}`, url.Values{}},
		{`"cmd=a&cmd=b"`, url.Values{"cmd": {"a", "b"}}},
		{`{"cmd":["a","b"],"tty":true,"rows":24,"dir":null}`, url.Values{"cmd": {"a", "b"}, "tty": {"true"}, "rows": {"24"}}},
		{`{"id":1790000000123}`, url.Values{"id": {"1790000000123"}}},
		{`{"max_run_after_disconnect":1000000}`, url.Values{"max_run_after_disconnect": {"1000000"}}},
		{`{"cmd":[1000000,0.5]}`, url.Values{"cmd": {"1000000", "0.5"}}},
		{`{"cmd":[{}]}`, nil},
		{`[]`, nil},
	} {
		got, err := envelope{Args: json.RawMessage(c.args)}.decodeArguments()
		if (err == nil) != (c.want != nil) || err == nil && !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
}
