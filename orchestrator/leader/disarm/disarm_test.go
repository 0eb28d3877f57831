package disarm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
)

// TestFind holds texts with their findings.
func TestFind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\ttext\r\n":                         "",
		"\x1b[31mred\x1b[0m \x1b[2K":              "", // colours, and a line that is erased
		"héllo 👩‍🚀 a::b std::vector\n::":          "",
		"a < b && <b>bold</b> <a href=x>":         "",
		"LATTICE_EVENT {}":                        "event LATTICE_EVENT",
		"x\n  ::set-output name=a::b":             "ci ::set-output::",
		"\x1b]52;c;eA==\x07":                      "terminal OSC 52",
		"\x1b]8;;javascript:alert(1)\x1b\\":       "terminal OSC 8; markup javascript",
		"\x1bPq\x1b\\":                            "terminal DCS",
		"\x1b\x1b]52;c;eA==\x07":                  "terminal OSC 52",
		"\x1b\x1b\x1b\x1bPq":                      "terminal DCS",
		"\x1b[21t":                                "terminal CSI t",
		"\x1b[6n":                                 "terminal CSI n",
		"\u009b31m":                               "terminal CSI",
		"\x9d0;title\x07":                         "terminal OSC 0",
		"abc\u202edef":                            "bidi U+202E",
		"<sCRIPT>":                                "markup script",
		"<img src=x OnError = f()>":               "markup onerror",
		"<svg/onload=f()>":                        "markup onload",
		"<iframe\nsrc=x>":                         "markup iframe",
		"<x-a onclick=f()>":                       "markup onclick",
		"<x:a\fb\fonclick\n=\nf()>":               "markup onclick",
		"<img data-a/data-b=c/onerror=f()>":       "markup onerror",
		"<img alt='>' onerror=f()>":               "markup onerror",
		"<img alt=\"<\"onerror=f()>":              "markup onerror",
		"<img alt=a'b title=\">\" onerror=f()>":   "markup onerror",
		"<a href=x>one = 1":                       "",
		"<img data-on-x=y on-x=z>":                "",
		"[x](JavaScript:f())":                     "markup javascript",
		"LATTICE_EVENT\x1b]0;\x07<script >\u2066": "event LATTICE_EVENT; terminal OSC 0; bidi U+2066; markup script",
	} {
		var got []string
		for _, f := range Find([]byte(text)) {
			got = append(got, string(f.Kind)+" "+f.What)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("Find(%q) = %q, want %q", text, got, want)
		}
	}
}

// facts keeps entries.
type facts struct{ all []audit.Entry }

func (f *facts) AuditEntries(context.Context, string, uint64, func(audit.Entry) error) error {
	return nil
}

func (f *facts) AddFact(_ context.Context, e audit.Entry, body any, _ uint64) (audit.Entry, error) {
	raw, err := json.Marshal(body)
	e.Body = raw
	f.all = append(f.all, e)
	return e, err
}

// TestOutput prints without end, in writes that cut findings in two: there is one entry for each kind and run, and none has the text.
func TestOutput(t *testing.T) {
	t.Parallel()
	var kept facts
	var log bytes.Buffer
	n := &Notes{Facts: &kept}
	open := n.Output(func(string, string) io.Writer { return &log })
	for range 50 {
		w := open("run_1", "a")
		for i := range 1000 {
			text := "secret <script>\nLATTICE_EVENT {}\n"
			cut := i % len(text)
			_, _ = w.Write([]byte(text[:cut])) // it never fails
			_, _ = w.Write([]byte(text[cut:]))
		}
	}
	_, _ = open("run_2", "b").Write([]byte("LATTICE_EVENT"))
	if len(kept.all) != 3 || log.Len() != 50*1000*len("secret <script>\nLATTICE_EVENT {}\n")+len("LATTICE_EVENT") {
		t.Errorf("%d entries about %d bytes", len(kept.all), log.Len())
	}
	for _, e := range kept.all {
		if e.Key == "" || e.Kind != audit.Disarmed || strings.Contains(string(e.Body), "secret") {
			t.Errorf("the entry is %+v", e)
		}
	}
}

// TestTexts has findings in the texts of an event, however its JSON spells them.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"a":["\u003cscript\u003e"]}`, `{"\u003cscript >":1}`, `{"a":{"b":"<script>"}}`, `"<scr\u0069pt>"`} {
		if got := findInJSON([]byte(raw)); len(got) != 1 || got[0].What != "script" {
			t.Errorf("%s: %+v", raw, got)
		}
	}
	for _, tt := range []struct{ raw, what string }{
		{`{"a":"::set-env name=a::b"}`, "::set-env::"},
		{`{"a":"x\n  ::add-mask::b"}`, "::add-mask::"},
		{`{"n":1e999,"a":"\u003cscript>"}`, "script"},
		{`{"n":1e999,"a":"\u001b]52;c;eA==\u0007"}`, "OSC 52"},
	} {
		if got := findInJSON([]byte(tt.raw)); len(got) != 1 || got[0].What != tt.what {
			t.Errorf("%s: %+v, want %s", tt.raw, got, tt.what)
		}
	}
	if got := findInJSON([]byte(`{"a":"\\u003cscript>"}`)); len(got) != 0 {
		t.Errorf("text that spells an escape is %+v", got)
	}
}
