package wire

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

func TestProxies(t *testing.T) {
	env := []string{"http_proxy=http://p:1", "HTTPS_PROXY=q:2", "no_proxy=example.com, .internal,10.0.0.0/8,*.star,host:8080"}
	p := proxiesOf(environment(env))
	for target, want := range map[string]string{
		"http://a/": "http://p:1", "https://a/": "http://q:2", "https://example.com/": "", "https://x.example.com/": "", "https://notexample.com/": "http://q:2",
		"http://x.internal/": "", "http://10.1.2.3/": "", "http://11.1.2.3/": "http://p:1", "http://a.star/": "", "http://host/": "",
		"http://localhost/": "", "http://127.0.0.1:9/": "", "http://[::1]/": "",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.of(u)
		text := ""
		if got != nil {
			text = got.String()
		}
		if text != want || err != nil {
			t.Errorf("of(%s) = %q, %v; want %q", target, text, err, want)
		}
	}
	if got, err := proxiesOf(nil).of(&url.URL{Scheme: "http", Host: "a"}); got != nil || err != nil {
		t.Errorf("without an environment: %v, %v", got, err)
	}
}

// packets frames lines; "" is a flush.
func packets(lines ...string) string {
	var b strings.Builder
	e := pktline.NewEncoder(&b)
	for _, l := range lines {
		if l == "" {
			e.Flush()
		} else {
			e.EncodeString(l)
		}
	}
	return b.String()
}

// FuzzListen: whatever a remote says of itself is understood or refused, in bounded memory and without a panic.
func FuzzListen(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add(packets(id+" HEAD\x00side-band-64k symref=HEAD:refs/heads/main agent=x\n", id+" refs/heads/main\n", id+" refs/tags/v\n", id+" refs/tags/v^{}\n", ""))
	f.Add(packets(strings.Repeat("0", 40)+" capabilities^{}\x00report-status\n", ""))
	f.Add(packets("ERR no\n"))
	f.Add("0004")
	f.Fuzz(func(t *testing.T, said string) {
		c := &Conn{caps: map[string]string{}}
		if err := c.listen(strings.NewReader(said)); err != nil {
			for _, known := range []error{ErrNotRepository, ErrUnreachable, ErrRefused} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Errorf("listen = %v, which is no error of a remote", err)
		}
	})
}

// FuzzReport: the same for what it says of a push.
func FuzzReport(f *testing.F) {
	f.Add(packets("unpack ok\n", "ok refs/heads/a\n", "ng refs/heads/b hook declined\n", ""))
	f.Add(packets("unpack index-pack failed\n", ""))
	f.Fuzz(func(t *testing.T, said string) {
		if refused, err := readReport(strings.NewReader(said)); err == nil && refused == nil {
			t.Error("neither an answer nor an error")
		}
	})
}
