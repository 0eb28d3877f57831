package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// received is one request that a channel got.
type received struct {
	path   string
	header http.Header
	body   map[string]any
}

// listen starts a server that answers with a status and returns its URL and the requests that it gets.
func listen(t *testing.T, status int) (string, <-chan received) {
	t.Helper()
	got := make(chan received, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		in := received{path: r.URL.Path, header: r.Header}
		if err := json.Unmarshal(text, &in.body); err != nil {
			t.Errorf("body %s: %v", text, err)
		}
		in.header.Set("Test-Body", string(text))
		got <- in
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		io.WriteString(w, "as you\nwish\x1b[2J") //nolint:errcheck // the client may be gone
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

var note = Note{ID: "n1", Channel: "ops", Level: "warning", Title: "Tests <!channel> fail", Body: "a & b", Link: "https://example.org/run",
	RunID: "run_1", At: time.Unix(1_700_000_000, 0).UTC()}

func TestDeliver(t *testing.T) {
	address, got := listen(t, http.StatusOK)
	for _, test := range []struct {
		channel Channel
		path    string
		body    map[string]any
	}{
		{Channel{Kind: Slack, URL: address + "/services/T/B/x"}, "/services/T/B/x",
			map[string]any{"text": "⚠️ *Tests &lt;!channel&gt; fail*\na &amp; b\nhttps://example.org/run", "link_names": 0.0, "unfurl_links": false, "unfurl_media": false}},
		{Channel{Kind: Ntfy, URL: address + "/alerts", Secret: "tk_1"}, "/",
			map[string]any{"topic": "alerts", "title": note.Title, "message": "a & b", "priority": 4.0, "click": note.Link}},
		{Channel{Kind: Ntfy, URL: address + "/sub/alerts/"}, "/sub/",
			map[string]any{"topic": "alerts", "title": note.Title, "message": "a & b", "priority": 4.0, "click": note.Link}},
		{Channel{Kind: Webhook, URL: address + "/hook", Secret: "0123456789abcdef"}, "/hook",
			map[string]any{"id": "n1", "channel": "ops", "level": "warning", "title": note.Title, "body": "a & b", "link": note.Link, "run_id": "run_1", "at": "2023-11-14T22:13:20Z"}},
	} {
		if err := test.channel.Deliver(t.Context(), NewClient(), note); err != nil {
			t.Errorf("%s: %v", test.channel.Kind, err)
			continue
		}
		in := <-got
		if d := cmp.Diff(test.body, in.body); d != "" || in.path != test.path {
			t.Errorf("%s: path %s, body (-want +got):\n%s", test.channel.Kind, in.path, d)
		}
		if test.channel.Kind == Ntfy && test.channel.Secret != "" && in.header.Get("Authorization") != "Bearer tk_1" {
			t.Errorf("ntfy: headers %v", in.header)
		}
		if test.channel.Kind == Webhook {
			want := signBody([]byte("0123456789abcdef"), "n1", in.header.Get("Webhook-Timestamp"), []byte(in.header.Get("Test-Body")))
			if in.header.Get("Webhook-Signature") != want || in.header.Get("Webhook-Id") != "n1" {
				t.Errorf("webhook: headers %v, want signature %s", in.header, want)
			}
		}
	}
}

// TestMentions checks that text of a sprite does not mention a channel in Slack, Mattermost or Discord.
func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<!channel>":           "&lt;!channel&gt;",
		"@channel @Here, @ALL": "@\u200bchannel @\u200bHere, @\u200bALL",
		"@everyone.":           "@\u200beveryone.",
		"<@&123> <@1> <@!1>":   "&lt;@\u200b&amp;123&gt; &lt;@\u200b1&gt; &lt;@\u200b!1&gt;",
		"me@example.org @ 5":   "me@example.org @ 5",
	} {
		got := slackMessage(Note{Level: protocol.LevelInfo, Title: text, Body: text})["text"]
		if want := "ℹ️ *" + want + "*\n" + want; got != want {
			t.Errorf("slackMessage(%q) = %q, want %q", text, got, want)
		}
	}
}

// The vector of the specification of Standard Webhooks.
func TestSignature(t *testing.T) {
	c := Channel{Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	got := signBody(c.signingKey(), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("sign = %s, want %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	for status, final := range map[int]bool{301: true, 307: true, 400: true, 404: true, 408: false, 429: false, 500: false, 503: false} {
		address, got := listen(t, status)
		err := Channel{Kind: Slack, URL: address}.Deliver(t.Context(), NewClient(), note)
		var no *Refusal
		if !errors.As(err, &no) || no.Final() != final || no.Text != "as you wish[2J" {
			t.Errorf("%d: %v, want final %v", status, err, final)
		}
		if in := <-got; in.path != "/" || len(got) != 0 {
			t.Errorf("%d: a redirect was followed", status)
		}
	}
	err := Channel{Kind: Slack, URL: "http://127.0.0.1:1/services/secret"}.Deliver(t.Context(), NewClient(), note)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("unreachable: %v, want an error without the URL", err)
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		channel Channel
		want    string // part of the error; "" = none
	}{
		{Channel{Kind: Slack, URL: "https://hooks.example.org/x"}, ""},
		{Channel{Kind: Slack, URL: "file:///etc/passwd"}, "not an http"},
		{Channel{Kind: Slack, URL: "https://%zz"}, "not an http"},
		{Channel{Kind: Webhook, URL: "https://example.org"}, "needs a secret"},
		{Channel{Kind: Webhook, URL: "https://example.org", Secret: "short"}, "fewer than 16"},
		{Channel{Kind: Webhook, URL: "https://example.org", Secret: "whsec_AAAA"}, "fewer than 16"},
		{Channel{Kind: Ntfy, URL: "https://ntfy.example.org/"}, "topic"},
	} {
		err := test.channel.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.channel, err, test.want)
		}
	}
}

func TestHostileText(t *testing.T) {
	n := note
	n.Title, n.Body = strings.Repeat("é", 300), "a\x1b]0;x\x07\u202eb\n\tc\xff"
	got, err := n.checkNote()
	if err != nil || len(got.Title) > maxTitle || !strings.HasSuffix(got.Title, "é…") || got.Body != "a]0;x<U+202E>b\n\tc" {
		t.Errorf("check = %q %q, %v", got.Title, got.Body, err)
	}
	n.ID = "../escape"
	if _, err := n.checkNote(); err == nil {
		t.Error("the id of a note names a file elsewhere")
	}
	n = note
	n.Level = "shout"
	var bad *fault.Error
	if _, err := n.checkNote(); !errors.As(err, &bad) || bad.Code != "bad_notification" {
		t.Errorf("a level that does not exist: %v", err)
	}
}

// answers is a transport that gives one status after the other, 0 for a failed connection, and counts the requests.
type answers struct {
	statuses []int
	asked    []time.Duration // since began
	began    time.Time
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	status := a.statuses[min(len(a.asked), len(a.statuses)-1)]
	a.asked = append(a.asked, time.Since(a.began))
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

func TestSender(t *testing.T) {
	for _, test := range []struct {
		name     string
		statuses []int
		asked    []time.Duration // the first attempts
		attempts int
		last     string // problem that the log is told at the end, "" = delivered
	}{
		{"delivered", []int{200}, []time.Duration{0}, 1, ""},
		{"comes back", []int{0, 503, 429, 204}, []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second}, 4, ""},
		{"refused", []int{500, 403}, []time.Duration{0, time.Second}, 2, "given up after 2 attempts: it answered with status 403"},
		{"never there", []int{0}, []time.Duration{0, time.Second, 3 * time.Second}, 154, "given up after 154 attempts: reach it: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var last error
				a := &answers{statuses: test.statuses, began: time.Now()}
				spool := NewSpool(dir)
				s := NewSender(spool, func(name string) (Channel, error) {
					return Channel{Name: name, Kind: Slack, URL: "https://example.org/x"}, nil
				}, func(_ Note, err error) { last = err })
				s.client = &http.Client{Transport: a}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				n := note
				n.At = time.Now()
				for range 2 { // the same note twice is one note while it waits
					if err := s.Add(n); err != nil {
						t.Fatal(err)
					}
				}
				go func() { defer close(done); s.Run(ctx) }()
				time.Sleep(48 * time.Hour)
				synctest.Wait()
				cancel()
				<-done
				if len(a.asked) != test.attempts || !cmp.Equal(a.asked[:len(test.asked)], test.asked) {
					t.Errorf("%d attempts %v, want %d beginning with %v", len(a.asked), a.asked[:min(5, len(a.asked))], test.attempts, test.asked)
				}
				if text := errorText(last); text != test.last {
					t.Errorf("at the end %q, want %q", text, test.last)
				}
				if left, err := spool.List(); len(left) > 0 || err != nil {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		})
	}
}

// A note that is added while Run has nothing to do is delivered at once.
func TestAddWakesRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := &answers{statuses: []int{200}, began: time.Now()}
		s := NewSender(NewSpool(dir), func(name string) (Channel, error) {
			return Channel{Name: name, Kind: Slack, URL: "https://example.org/x"}, nil
		}, func(Note, error) {})
		s.client = &http.Client{Transport: a}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		synctest.Wait() // Run has found an empty spool
		if err := s.Add(note); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-done
		if want := []time.Duration{0}; !cmp.Equal(a.asked, want) {
			t.Errorf("attempts at %v, want %v", a.asked, want)
		}
	})
}

// slowHosts is a transport to hosts of which those named down are not reached, which takes as long as a request may.
type slowHosts struct{ asked map[string]int }

func (h *slowHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	h.asked[r.URL.Host]++
	if strings.HasPrefix(r.URL.Host, "down") {
		time.Sleep(10 * time.Second)
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestSlowChannel checks that notes of a channel that is not reached do not delay those of another one.
func TestSlowChannel(t *testing.T) {
	for name, down := range map[string][]string{"one channel": {"down"}, "two channels": {"down1", "down2"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				hosts := &slowHosts{asked: map[string]int{}}
				began, took := time.Now(), time.Duration(-1)
				s := NewSender(NewSpool(dir), func(name string) (Channel, error) {
					return Channel{Name: name, Kind: Slack, URL: "https://" + name + "/x"}, nil
				}, func(n Note, err error) {
					if n.Channel == "up" && err == nil {
						took = time.Since(began)
					}
				})
				s.client = &http.Client{Transport: hosts}
				add := func(id, channel string) {
					n := note
					n.ID, n.Channel, n.At = id, channel, time.Now()
					if err := s.Add(n); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 50 {
					add("n"+strconv.Itoa(i), down[i%len(down)])
				}
				add("z", "up") // the last one in the spool
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); s.Run(ctx) }()
				time.Sleep(time.Hour)
				cancel()
				<-done
				if most := time.Duration(len(down)) * 10 * time.Second; took < 0 || took > most {
					t.Errorf("the note of the other channel took %v, want at most %v", took, most)
				}
				for _, name := range down {
					if hosts.asked[name] < 5 {
						t.Errorf("%s was asked %d times in an hour", name, hosts.asked[name])
					}
				}
			})
		})
	}
}

// deliver tries the notes that are due now.
func deliver(s *Sender) error {
	_, err := s.deliverDue(context.Background())
	return err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A note that a process could not deliver is delivered by the next one, and a channel that the settings no longer have
// keeps it waiting with a reason.
func TestSpoolOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	missing := errors.New("the settings have no channel ops")
	first := NewSender(NewSpool(dir), func(string) (Channel, error) { return Channel{}, missing }, func(Note, error) {})
	if err := first.Add(note); err != nil {
		t.Fatal(err)
	}
	if err := deliver(first); err != nil {
		t.Fatal(err)
	}
	// The note is older than a day, so that a missing channel ends it at once; a young one waits.
	if left, err := first.spool.List(); len(left) != 0 || err != nil {
		t.Errorf("an old note is kept: %v, %v", left, err)
	}
	young := note
	young.At = time.Now()
	if err := first.Add(young); err != nil {
		t.Fatal(err)
	}
	if err := deliver(first); err != nil {
		t.Fatal(err)
	}
	left, err := NewSpool(dir).List()
	if err != nil || len(left) != 1 || left[0].Attempts != 1 || left[0].Problem != missing.Error() {
		t.Fatalf("left: %+v, %v", left, err)
	}
	address, got := listen(t, http.StatusOK)
	second := NewSender(NewSpool(dir), func(name string) (Channel, error) { return Channel{Name: name, Kind: Slack, URL: address}, nil }, func(Note, error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); second.Run(ctx) }()
	<-got
	cancel()
	<-done
}

func TestFullSpool(t *testing.T) {
	s := NewSpool(t.TempDir())
	for i := range maxNotes {
		if err := s.writeNote(Waiting{Note: Note{ID: "n" + strings.Repeat("x", i%100) + string(rune('a'+i/100))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(note); err == nil || !strings.Contains(err.Error(), "1000 notifications") { // notifications_full
		t.Errorf("Add = %v, want a refusal", err)
	}
}

func TestMinLevel(t *testing.T) {
	c := Channel{MinLevel: "warning"}
	if c.Takes("info") || !c.Takes("warning") || !c.Takes("error") || !(Channel{}).Takes("info") {
		t.Error("the least level of a channel is wrong")
	}
}
