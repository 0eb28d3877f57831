package sprites

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// Services are the calls about services; see [Client.Services].
type Services struct{ *transport }

// Service is a program that the sprite keeps running: it is started with the sprite, after the services that it needs, and
// again when it ends by itself.
type Service struct {
	Name     string            `json:"name"`
	Cmd      string            `json:"cmd"` // the program alone
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"` // /home/sprite when empty
	Needs    []string          `json:"needs"`
	HTTPPort int               `json:"http_port,omitempty"` // where it serves the sprite's URL; of one service at most
	State    *ServiceState     `json:"state,omitempty"`     // not sent
}

// ServiceState is how a service stands.
type ServiceState struct {
	Name          string     `json:"name"`
	Status        string     `json:"status"` // stopped | starting | running | stopping | failed
	PID           int        `json:"pid,omitempty"`
	StartedAt     *time.Time `json:"started_at,omitempty"`
	Error         string     `json:"error,omitempty"` // why it failed, or the service that it waits for
	RestartCount  int        `json:"restart_count,omitempty"`
	NextRestartAt *time.Time `json:"next_restart_at,omitempty"`
}

// ServiceEvent is a line of the streams that calls about a service answer with. The last one of each is of type "complete".
type ServiceEvent struct {
	Type      string            `json:"type"` // started | stdout | stderr | exit | error | stopping | stopped | complete
	Data      string            `json:"data,omitempty"`
	ExitCode  *int              `json:"exit_code,omitempty"`
	Timestamp int64             `json:"timestamp"`           // Unix milliseconds
	LogFiles  map[string]string `json:"log_files,omitempty"` // of complete: paths in the sprite
}

// List lists the sprite's services.
func (c Services) List(ctx context.Context, name string) ([]Service, error) {
	var raw json.RawMessage
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "services")}, &raw)
	if err != nil {
		return nil, describeError(err, "list services of %s", name)
	}
	var all []Service
	if json.Unmarshal(raw, &all) == nil {
		return all, nil
	}
	var wrapped struct {
		Services listOf[Service] `json:"services"`
	}
	if json.Unmarshal(raw, &wrapped) != nil || !wrapped.Services.told {
		return nil, fmt.Errorf("list services of %s: the answer has no list of services: %w", name, errOdd)
	}
	return wrapped.Services.items, nil
}

// Get returns one service, or an error that is [ErrNotFound].
func (c Services) Get(ctx context.Context, name, service string) (Service, error) {
	var out Service
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "services", service)}, &out)
	if err == nil && out.Name != service {
		err = fmt.Errorf("the answer is about service %q: %w", out.Name, errOdd)
	}
	return out, describeError(err, "get service %s of %s", service, name)
}

// ServiceCall says how to follow a service: for how long (0 is not at all, negative the server's default), and who is told
// each event, which may be nil. An error of OnEvent ends the call.
type ServiceCall struct {
	Duration time.Duration
	OnEvent  func(ServiceEvent) error
}

func (f ServiceCall) callQuery() url.Values {
	q := url.Values{}
	if f.Duration >= 0 {
		q.Set("duration", f.Duration.String())
	}
	return q
}

// Put defines or changes a service, starts it, and follows it. That it ran is seen in the events alone.
func (c Services) Put(ctx context.Context, name string, s Service, f ServiceCall) error {
	body := s
	body.State = nil
	err := c.streamEvents(ctx, request{method: http.MethodPut, path: spritePath(name, "services", s.Name), query: f.callQuery(), in: body}, f)
	return describeError(err, "define service %s of %s", s.Name, name)
}

// Start starts a service with all that it needs.
func (c Services) Start(ctx context.Context, name, service string, f ServiceCall) error {
	err := c.streamEvents(ctx, request{method: http.MethodPost, path: spritePath(name, "services", service, "start"), query: f.callQuery()}, f)
	return describeError(err, "start service %s of %s", service, name)
}

// Restart stops a service and starts it.
func (c Services) Restart(ctx context.Context, name, service string, f ServiceCall) error {
	err := c.streamEvents(ctx, request{method: http.MethodPost, path: spritePath(name, "services", service, "restart"), query: f.callQuery()}, f)
	return describeError(err, "restart service %s of %s", service, name)
}

// Stop stops a service until it is started by request. It is killed when it has not ended after the timeout; f's
// duration is not used.
func (c Services) Stop(ctx context.Context, name, service string, timeout time.Duration, f ServiceCall) error {
	query := url.Values{"timeout": {timeout.String()}}
	err := c.streamEvents(ctx, request{method: http.MethodPost, path: spritePath(name, "services", service, "stop"), query: query}, f)
	return describeError(err, "stop service %s of %s", service, name)
}

// Logs reads the last lines of a service's log, and the lines that follow.
func (c Services) Logs(ctx context.Context, name, service string, lines int, f ServiceCall) error {
	query := f.callQuery()
	query.Set("lines", strconv.Itoa(lines))
	err := c.streamEvents(ctx, request{method: http.MethodGet, path: spritePath(name, "services", service, "logs"), query: query}, f)
	return describeError(err, "read the log of service %s of %s", service, name)
}

// Delete stops and forgets a service. Its log stays.
func (c Services) Delete(ctx context.Context, name, service string) error {
	return describeError(c.deleteResource(ctx, spritePath(name, "services", service), nil), "delete service %s of %s", service, name)
}

// Signal sends a signal ("HUP") to a service's process group. One that ends by it is started again.
func (c Services) Signal(ctx context.Context, name, service, signal string) error {
	in := map[string]string{"name": service, "signal": signal}
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "services", "signal"), in: in}, nil)
	return describeError(err, "signal service %s of %s", service, name)
}

// streamEvents sends a request, again only when it was not seen, and reads its events to the last one.
func (c Services) streamEvents(ctx context.Context, r request, f ServiceCall) error {
	var res *http.Response
	err := c.retrySafely(ctx, r.method == http.MethodGet, func() (err error) {
		res, err = c.sendOnce(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	complete := false
	for e, err := range readEvents[ServiceEvent](ctx, c.transport, res) {
		if err != nil {
			return err
		}
		complete = complete || e.Type == "complete"
		if f.OnEvent != nil {
			if err := f.OnEvent(e); err != nil {
				return err
			}
		}
	}
	if !complete {
		return progress.ErrCut
	}
	return nil
}
