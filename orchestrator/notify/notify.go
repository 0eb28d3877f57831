// Package notify tells people about runs through channels that the settings name: a signed webhook, an incoming webhook
// of Slack or a compatible service, or ntfy. Start with Sender, which delivers the notes of a [Spool] until each channel
// took them or refused them for good.
//
//	channel  a channel, and the request that carries a note to it
//	spool    notes on their way, one file each, so that they survive the process
//	sender   delivers them, with exponential backoff
//
// A note may hold text of a sprite, which is hostile: it is cut, escaped for the service, and never decides where a request
// goes. Addresses come from the settings alone, and redirects are not followed. Delivery is at least once; a receiver tells
// repetitions by the id of the note (DESIGN 20).
package notify

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Kind says how a channel is spoken to.
type Kind string

const (
	Webhook Kind = "webhook" // JSON, signed in the manner of Standard Webhooks
	Slack   Kind = "slack"   // an incoming webhook of Slack, Mattermost, or Discord's /slack
	Ntfy    Kind = "ntfy"    // a topic of an ntfy server
)

// Levels lists the levels of a note, least first.
func Levels() []string {
	return []string{protocol.LevelInfo, protocol.LevelWarning, protocol.LevelError}
}

// Channel is a place that notes are delivered to.
type Channel struct {
	Name string
	Kind Kind
	URL  string
	// Secret signs the requests of a webhook; of an ntfy server it is the access token. Slack's URL is its secret.
	Secret string
	// MinLevel is the least level that the channel takes; "" takes all.
	MinLevel string
}

// Takes reports whether the channel wants notes of a level.
func (c Channel) Takes(level string) bool {
	return slices.Index(Levels(), level) >= slices.Index(Levels(), c.MinLevel)
}

// Note is one message to people.
type Note struct {
	// ID tells repetitions of one note. It is part of a file name.
	ID      string    `json:"id"`
	Channel string    `json:"channel"`
	Level   string    `json:"level"`
	Title   string    `json:"title"`
	Body    string    `json:"body,omitempty"`
	Link    string    `json:"link,omitempty"`
	RunID   string    `json:"run_id,omitempty"`
	At      time.Time `json:"at"`
}

// Limits of a note, in bytes; longer text is cut at a character.
const (
	maxTitle = 200
	maxBody  = 8 << 10
)

var noteID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })

// checkNote refuses a note that cannot be delivered, and cuts one that is too long.
func (n Note) checkNote() (Note, error) {
	if !noteID().MatchString(n.ID) {
		return n, fmt.Errorf("the id %.40q of a note is not a name", n.ID)
	}
	if !slices.Contains(Levels(), n.Level) {
		return n, fault.BadInput("bad_notification", "the level %.40q is not one of %v", n.Level, Levels())
	}
	n.Title, n.Body = cleanText(n.Title, maxTitle), cleanText(n.Body, maxBody)
	return n, nil
}
