package sprites

import (
	"context"
	"net/http"
	"time"
)

// Policies are the calls about the hosts and ports that sprites may reach; see [Client.Policies].
type Policies struct{ *transport }

// NetworkRule is one rule of a sprite's network policy: Domain with Action ("allow" or "deny"), or Include ("defaults").
type NetworkRule struct {
	Domain  string `json:"domain,omitempty"`
	Action  string `json:"action,omitempty"`
	Include string `json:"include,omitempty"`
}

// NetworkPolicy is a sprite's network policy. No rules allow everything that is public.
type NetworkPolicy struct {
	Rules []NetworkRule `json:"rules"`
}

// Denial is something that a sprite tried and its policy denied.
type Denial struct {
	Time    time.Time `json:"time"` // of the last time
	Kind    string    `json:"kind"` // dns | connect
	Name    string    `json:"name,omitempty"`
	Address string    `json:"address,omitempty"`
	Port    int       `json:"port,omitempty"`
	Code    string    `json:"code"`
	Reason  string    `json:"reason"`
	Count   int       `json:"count"`
}

// Network returns the rules that bind a sprite.
func (c Policies) Network(ctx context.Context, name string) (NetworkPolicy, error) {
	var out NetworkPolicy
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "policy", "network")}, &out)
	return out, describeError(err, "get network policy of sprite %s", name)
}

// SetNetwork replaces the rules that bind a sprite. Connections that they do not allow are cut.
func (c Policies) SetNetwork(ctx context.Context, name string, p NetworkPolicy) error {
	if p.Rules == nil {
		p.Rules = []NetworkRule{}
	}
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "policy", "network"), in: p, again: true}, nil)
	return describeError(err, "set network policy of sprite %s", name)
}

// ResetNetwork takes a sprite's own policy away, so that the host's preset binds it; of the embedded host only.
func (c Policies) ResetNetwork(ctx context.Context, name string) error {
	err := c.sendRequest(ctx, request{method: http.MethodDelete, path: spritePath(name, "policy", "network")}, nil)
	return describeError(err, "reset network policy of sprite %s", name)
}

// Denials lists the connections that a sprite was denied, the newest first. Only the embedded host offers it.
func (c Policies) Denials(ctx context.Context, name string) ([]Denial, error) {
	var out struct {
		Denials []Denial `json:"denials"`
	}
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "policy", "network", "denials")}, &out)
	return out.Denials, describeError(err, "list network denials of sprite %s", name)
}
