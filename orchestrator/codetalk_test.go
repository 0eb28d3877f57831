package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
)

// talk has people and webhooks of a code host act in a script. It reports whether it knows the verb:
//
//	codehost comment USER NUMBER TEXT   comments on an issue; DIGEST stands for that of the last question
//	codehost review USER NUMBER STATE TEXT FILE:LINE   reviews a pull request: the text belongs to the line, or to the review if it is -
//	codehost push USER BRANCH BEFORE    delivers a push to a branch, which the script made in the bare repository
//	codehost user NAME                  adds a user
//	codehost hook FILE                  adds a webhook, or moves it, to the lattice serve that printed FILE
//	codehost deliver [again]            sends the deliveries that were not sent, or all
//	codehost expect NUMBER PATTERN      waits for a comment by lattice
//	codehost digest NAME                sets a variable to the digest of the last question
func (h *codeHost) talk(ts *testscript.TestScript, args []string) bool {
	const site = "acme/site"
	switch rest := args[1:]; args[0] + " " + strings.Repeat("x", len(rest)) {
	case "comment xxx":
		h.said = h.withDigest(rest[2])
		h.comment = h.Comment(site, rest[0], numberOf(ts, rest[1]), h.said)
	case "review xxxxx":
		w := forgetest.Review{State: rest[2], Body: rest[3]}
		if file, line, ok := strings.Cut(rest[4], ":"); ok {
			n, err := strconv.Atoi(line)
			ts.Check(err)
			w.Body, w.Comments = "", []forgetest.LineComment{{Path: file, Line: n, Body: rest[3]}}
		}
		h.reviewed = h.Review(site, rest[0], numberOf(ts, rest[1]), w)
	case "push xxx":
		h.AnnouncePush(site, rest[0], rest[1], rest[2])
	case "user x":
		h.AddUser(rest[0], "User")
	case "hook x":
		if h.aim(ts, rest[0]) == nil {
			h.AddHook(site, h.serveProxy(ts)+"/hooks/main", "0123456789abcdef")
		}
	case "deliver ", "deliver x":
		if len(rest) > 0 {
			h.sent = 0
		}
		all := h.Deliveries()
		for ; h.sent < len(all); h.sent++ {
			if status, err := h.Send(context.Background(), all[h.sent]); err != nil || status != http.StatusAccepted {
				ts.Fatalf("a delivery was answered with %d, %v", status, err)
			}
		}
	case "expect xx":
		pattern := regexp.MustCompile(`(?m)^(review-)?comment ` + site + `#` + rest[0] + ` by lattice.*: .*` + rest[1])
		for end := time.Now().Add(time.Minute); !pattern.MatchString(h.Dump()); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				ts.Fatalf("no comment of lattice matches %s:\n%s", rest[1], h.Dump())
			}
		}
	case "digest x":
		ts.Setenv(rest[0], h.withDigest("DIGEST"))
	default:
		return false
	}
	return true
}

// withDigest returns a text with the digest of the last question for DIGEST, and unescaped.
func (h *codeHost) withDigest(text string) string {
	digests := regexp.MustCompile(`/lattice approve ([0-9a-f]{24}) -->`).FindAllStringSubmatch(h.Dump(), -1)
	if len(digests) > 0 {
		text = strings.ReplaceAll(text, "DIGEST", digests[len(digests)-1][1])
	}
	return unescape(text)
}

// aim has the webhooks lead to the lattice serve that printed a file, and returns where they led before.
func (h *codeHost) aim(ts *testscript.TestScript, file string) (before *url.URL) {
	var line struct{ HTTP string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &line))
	target, err := url.Parse(line.HTTP)
	ts.Check(err)
	return h.target.Swap(target)
}

// serveProxy starts a proxy to the target of the webhooks, as a machine has that the code host reaches, and returns its address.
func (h *codeHost) serveProxy(ts *testscript.TestScript) string {
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(h.target.Load()); r.Out.Host = r.In.Host }})
	ts.Defer(proxy.Close)
	return proxy.URL
}
