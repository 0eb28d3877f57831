package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// secretPrefix marks a base64 secret in the manner of Standard Webhooks; any other secret is used as it is.
const secretPrefix = "whsec_"

// Check returns an error if the channel cannot be used.
func (c Channel) Check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("its url is not an http or https URL") // err would print the URL, which may be a secret
	case c.Kind == Webhook && c.Secret == "":
		return errors.New("a webhook needs a secret that signs its requests")
	case c.Kind == Webhook && len(c.signingKey()) < 16:
		return errors.New("its secret has fewer than 16 bytes")
	case c.Kind == Ntfy && strings.Trim(u.Path, "/") == "":
		return errors.New("its url does not end with the name of a topic")
	}
	return nil
}

// signingKey returns the bytes that sign the requests of a webhook.
func (c Channel) signingKey() []byte {
	if text, ok := strings.CutPrefix(c.Secret, secretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil {
			return key
		}
	}
	return []byte(c.Secret)
}

// newRequest returns the request that delivers n. The time is part of a webhook's signature.
func (c Channel) newRequest(ctx context.Context, n Note, now time.Time) (*http.Request, error) {
	address, body, header := c.URL, any(n), http.Header{}
	switch c.Kind {
	case Slack:
		body = slackMessage(n)
	case Ntfy:
		server, topic, err := splitTopic(c.URL)
		if err != nil {
			return nil, err
		}
		address, body = server, ntfyMessage(n, topic)
		if c.Secret != "" {
			header.Set("Authorization", "Bearer "+c.Secret)
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the note: %w", err)
	}
	if c.Kind == Webhook {
		at := strconv.FormatInt(now.Unix(), 10)
		header.Set("Webhook-Id", n.ID)
		header.Set("Webhook-Timestamp", at)
		header.Set("Webhook-Signature", signBody(c.signingKey(), n.ID, at, text))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("its url is not a URL")
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "lattice")
	return r, nil
}

// signBody returns the signature of a webhook: version 1 of Standard Webhooks, HMAC-SHA256 over "id.timestamp.body".
func signBody(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// mention matches the words that mention all members of a channel in Mattermost and Discord, and the beginning of Discord's mentions of roles and users.
var mention = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)@(channel|here|all|everyone|[&!0-9])`) })

// slackMessage returns a message of Slack's incoming webhooks. Escaping & < > keeps text of a sprite from linking or from
// mentioning a channel; compatible services need a zero-width space in a mention for that.
func slackMessage(n Note) map[string]any {
	escape := func(s string) string {
		s = mention().ReplaceAllString(s, "@\u200b$1")
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	}
	mark := map[string]string{protocol.LevelInfo: "ℹ️", protocol.LevelWarning: "⚠️", protocol.LevelError: "🛑"}[n.Level]
	text := mark + " *" + escape(n.Title) + "*"
	if n.Body != "" {
		text += "\n" + escape(n.Body)
	}
	if n.Link != "" {
		text += "\n" + escape(n.Link)
	}
	return map[string]any{"text": text, "link_names": 0, "unfurl_links": false, "unfurl_media": false}
}

// ntfyMessage returns a message of ntfy's JSON publishing.
func ntfyMessage(n Note, topic string) map[string]any {
	priority := map[string]int{protocol.LevelInfo: 3, protocol.LevelWarning: 4, protocol.LevelError: 5}[n.Level]
	m := map[string]any{"topic": topic, "title": n.Title, "message": n.Body, "priority": priority}
	if n.Body == "" {
		m["title"], m["message"] = "lattice", n.Title
	}
	if n.Link != "" {
		m["click"] = n.Link
	}
	return m
}

// splitTopic splits the URL of an ntfy topic, since JSON is published to the root of the server.
func splitTopic(address string) (server, topic string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", "", errors.New("its url is not a URL")
	}
	path := strings.Trim(u.Path, "/")
	i := strings.LastIndexByte(path, '/') + 1
	u.Path = "/" + path[:i]
	return u.String(), path[i:], nil
}

// A Refusal is an answer of a channel that says no.
type Refusal struct {
	Status int
	Text   string // the beginning of the answer
}

func (r *Refusal) Error() string {
	if r.Text == "" {
		return fmt.Sprintf("it answered with status %d", r.Status)
	}
	return fmt.Sprintf("it answered with status %d: %s", r.Status, r.Text)
}

// Final reports whether asking again is pointless.
func (r *Refusal) Final() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return r.Status < 500
}

// NewClient returns the HTTP client of channels. It follows no redirects, so that only the settings decide where a note
// goes, and gives up after ten seconds.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Deliver sends n to the channel once. A *Refusal is the channel's answer; other errors mean that it was not reached. No
// error contains the channel's URL.
func (c Channel) Deliver(ctx context.Context, client *http.Client, n Note) error {
	n, err := n.checkNote()
	if err != nil {
		return err
	}
	r, err := c.newRequest(ctx, n, time.Now())
	if err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		return fmt.Errorf("reach it: %w", err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 512))
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	if err != nil {
		said = nil // the status says enough
	}
	return &Refusal{Status: res.StatusCode, Text: cleanText(strings.Join(strings.Fields(string(said)), " "), 200)}
}

// cleanText removes control characters and invalid UTF-8, writes invisible characters as <U+202E>, and shortens a text to a number of bytes.
func cleanText(s string, limit int) string {
	return text.Head(text.Visible(strings.ToValidUTF8(s, "")), limit)
}
