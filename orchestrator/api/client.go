package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/api/wire"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// ErrGone means that the leader ended in the middle of a reply; the caller may lead now.
var ErrGone = wire.ErrGone

// Client speaks to a leader. Its zero value is not usable; see [NewClient]. The calls are grouped by their subject.
type Client struct {
	*connection
	settle string // the path below which the leader describes itself; see settleRoot
	RunCalls
	TravelCalls
	DecisionCalls
	AccessCalls
	StoreCalls
}

// RunCalls start, list, follow and end runs, and read their products.
type RunCalls struct{ *connection }

// TravelCalls take runs back, fork, compare and replay them.
type TravelCalls struct{ *connection }

// DecisionCalls are about the decisions of people: actions, intents, proposals, budgets, schedules and the audit log.
type DecisionCalls struct{ *connection }

// AccessCalls are about secrets of sprites and tokens of callers.
type AccessCalls struct{ *connection }

// StoreCalls look after stored state: the store's file, the remains of runs in sprites, and the sprites of fleets.
type StoreCalls struct{ *connection }

// connection sends requests to the leader.
type connection = wire.Connection

// Root is the path below which the interface lies.
const Root = route.Root

// settleRoot is the path below which two processes of any versions settle who leads; see Hello. The rest of the interface
// may move.
const settleRoot = "/v1"

// paramOutline asks for an outline.
const paramOutline = "outline"

// Base is the URL under which a leader's socket is addressed.
const Base = wire.Base

// NewClient makes a client for the leader behind the unix socket at path.
func NewClient(path string) *Client {
	return newClient(&connection{HTTP: HTTPClient(path), Ending: CodeLeaderEnding}, settleRoot)
}

// NewClientOver makes a client whose requests an HTTP client carries, with a token, to the interface for callers with tokens.
func NewClientOver(hc *http.Client) *Client {
	return newClient(&connection{HTTP: hc, Ending: CodeLeaderEnding}, Root)
}

func newClient(c *connection, settle string) *Client {
	return &Client{c, settle, RunCalls{c}, TravelCalls{c}, DecisionCalls{c}, AccessCalls{c}, StoreCalls{c}}
}

// Via has the client's requests name the program that makes them; see [Via].
func (c *Client) Via(program string) { c.HTTP = caller.Via(c.HTTP, program) }

// HTTPClient dials the unix socket at path, for every host of a URL.
func HTTPClient(path string) *http.Client { return wire.Dial(path) }

// Hello asks who leads.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	return call[Hello](ctx, c.connection, "GET", c.settle+"/lattice", nil, nil)
}

// HandOver asks the leader to end its leadership.
func (c *Client) HandOver(ctx context.Context, to HandoverRequest) (Handover, error) {
	return call[Handover](ctx, c.connection, "POST", settleRoot+"/lattice/handover", nil, to)
}

// CodeLeaderEnding is the code for requests that arrive while a leader ends. The leader has not acted on them.
const CodeLeaderEnding = "leader_ending"

// call sends a request, and repeats it if the leader ends during the reply: repeated requests count once.
func call[T any](ctx context.Context, c *connection, method, path string, query url.Values, body any) (T, error) {
	return wire.Call[T](ctx, c, method, path, query, body)
}

// callList reads a list, as a whole unless the query has a limit.
func callList[T any](ctx context.Context, c *connection, path string, query url.Values) ([]T, error) {
	return wire.List[T](ctx, c, path, query)
}

// lines reads an NDJSON answer; a problem line ends it as that error.
func lines[T any](ctx context.Context, c *connection, path string, query url.Values, yield func(T) error) error {
	return wire.Lines(ctx, c, path, query, yield)
}

// path joins segments, which may hold any character, to a path of the interface; "" is the newest of its kind.
func path(segments ...string) string {
	p := Root
	for _, s := range segments {
		switch s = url.PathEscape(s); s {
		case "":
			s = route.Latest
		case ".", "..":
			s = strings.ReplaceAll(s, ".", "%2E") // not a way up
		}
		p += "/" + s
	}
	return p
}

// runPath returns the path of a run, or of a part of it; "" is the newest run.
func runPath(id string, part ...string) string {
	return strings.Join(append([]string{path("runs", id)}, part...), "/")
}

// queryOf returns the parameters, names and values alternating, that have a value.
func queryOf(pairs ...string) url.Values {
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	return query
}

// formatSet formats a value as a parameter, "" if it is the zero value.
func formatSet[T comparable](v T) string {
	if v == *new(T) {
		return ""
	}
	return fmt.Sprint(v)
}

// queryAfter returns the query for the entries after a position in a run's log.
func queryAfter(after lattice.Seq) url.Values {
	return url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
}

func queryOutline(after lattice.Seq) url.Values {
	query := queryAfter(after)
	query.Set(paramOutline, "true")
	return query
}
