// Package llm asks language models, over OpenAI-compatible chat completions (which local servers speak, too) and
// Anthropic Messages.
//
// Start with Client.Ask. It puts one question to the model that the settings name for a class, and answers with text, or
// with the kind of failure that it was: refusal, truncated, rate_limited, provider_error, timeout, limit_exceeded. What
// the text is worth is not judged here.
//
//	Ask ──► price: could the question cost more than is left? ──► pace: the rate of all questions, and rests that a
//	        provider asked for ──► one request, its answer streamed ──► 429, 5xx, cut: rest, again ──► reply
//
// Invariants: a key goes into the one header that its provider wants and is taken out of every text that comes back; no
// answer, event or error is read without a bound; redirects are not followed, since they would carry the key elsewhere.
package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Provider says how a server is spoken to.
type Provider string

const (
	OpenAI    Provider = "openai"    // POST {base}/chat/completions
	Anthropic Provider = "anthropic" // POST {base}/messages
)

// Providers lists them.
func Providers() []string { return []string{string(OpenAI), string(Anthropic)} }

// Structured says what a server is told of the schema that an answer must have; the answer is held against it anyway.
type Structured string

const (
	// StructuredSchema sends the schema where it is one that the vendors' strict modes take: all members required, no others.
	StructuredSchema Structured = "json_schema"
	StructuredJSON   Structured = "json_object" // OpenAI: some JSON object
	StructuredNone   Structured = "none"
)

// Class is a model under the name that flows use for it.
type Class struct {
	Name     string
	Provider Provider
	Model    string
	BaseURL  string // "" = the vendor's own
	// Key returns the credential; "" is none, for local servers. An error is for people and says what to do. Nil is none.
	Key        func() (string, error)
	KeyFrom    string     // where the key comes from, for people: the name of a variable, the path of a file
	Structured Structured // "" = json_schema at the vendor's own address, none elsewhere
	// NoTemperature leaves the temperature out of requests: some models refuse any.
	NoTemperature bool
	// Prices per million tokens, in US dollars; nil is not known.
	InputUSD, OutputUSD *float64
	Timeout             time.Duration // of a question with all its tries; 0 = DefaultTimeout
}

// DefaultTimeout bounds a question whose node and class do not say.
const DefaultTimeout = 2 * time.Minute

// vendor is where a provider's own models are.
var vendor = map[Provider]string{OpenAI: "https://api.openai.com/v1", Anthropic: "https://api.anthropic.com/v1"}

func (c Class) baseURL() string {
	return strings.TrimSuffix(cmp.Or(c.BaseURL, vendor[c.Provider]), "/")
}

// isVendors reports whether the class is at the vendor's own address.
func (c Class) isVendors() bool { return c.baseURL() == vendor[c.Provider] }

func (c Class) structuredMode() Structured {
	if c.Structured == "" && c.isVendors() {
		return StructuredSchema
	}
	return cmp.Or(c.Structured, StructuredNone)
}

func (c Class) loadKey() (string, error) {
	if c.Key == nil {
		return "", nil
	}
	return c.Key()
}

// costUSD is what these tokens cost, 0 where there is no price.
func (c Class) costUSD(in, out int) float64 {
	dollars := 0.0
	if c.InputUSD != nil {
		dollars += float64(in) * *c.InputUSD / 1e6
	}
	if c.OutputUSD != nil {
		dollars += float64(out) * *c.OutputUSD / 1e6
	}
	return dollars
}

// Options of New. Transport is required; the others have defaults.
type Options struct {
	Classes []Class
	// Transport carries requests; how proxies are chosen is its owner's to say.
	Transport http.RoundTripper
	// PerMinute is how many requests all questions together may make in a minute; 0 = DefaultPerMinute.
	PerMinute int
	// Order lists classes from the weakest to the strongest.
	Order []string
	// Idle is how long an answer may stand still; 0 = 60 s.
	Idle time.Duration
	// Now and Sleep are for tests.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// DefaultPerMinute is the rate of requests without a setting.
const DefaultPerMinute = 120

// Client asks. It is safe for concurrent use.
type Client struct {
	classes map[string]Class
	order   []string
	http    *http.Client
	rate    *rate.Limiter
	idle    time.Duration
	now     func() time.Time
	sleep   func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	rests map[string]time.Time // guarded by mu: until when an address wants no requests
}

// New makes a client. It refuses classes that could not be asked, all at once.
func New(o Options) (*Client, error) {
	c := &Client{
		classes: make(map[string]Class, len(o.Classes)), order: o.Order, idle: cmp.Or(o.Idle, time.Minute), now: o.Now, sleep: o.Sleep, rests: map[string]time.Time{},
		http: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	perMinute := cmp.Or(o.PerMinute, DefaultPerMinute)
	c.rate = rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))
	if c.now == nil {
		c.now = time.Now
	}
	if c.sleep == nil {
		c.sleep = sleepContext
	}
	var faults []error
	for _, class := range o.Classes {
		faults = append(faults, class.checkConfig())
		c.classes[class.Name] = class
	}
	return c, errors.Join(faults...)
}

func (c Class) checkConfig() error {
	u, err := url.Parse(c.baseURL())
	switch {
	case dialects[c.Provider] == nil:
		return fmt.Errorf("model class %s: there is no provider %q; known: %s", c.Name, c.Provider, strings.Join(Providers(), ", "))
	case c.Model == "":
		return fmt.Errorf("model class %s names no model", c.Name)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "":
		return fmt.Errorf("model class %s: its base URL is no http or https URL without credentials", c.Name)
	}
	return nil
}

// Ready says why a class could not be asked, nil when it could. priced also wants prices. Nothing is sent.
func (c *Client) Ready(class string, priced bool) error {
	found, ok := c.classes[class]
	if !ok {
		return fmt.Errorf("there is no model class %s in the settings; name its model there, as [models.%s]", class, class)
	}
	if priced && (found.InputUSD == nil || found.OutputUSD == nil) {
		return fmt.Errorf("model class %s has no prices, so that a limit of money cannot be kept; set input_usd and output_usd of it", class)
	}
	if _, err := found.loadKey(); err != nil {
		return fmt.Errorf("model class %s has no key: %w", class, err)
	}
	return nil
}

// Upward says why a node may not escalate from one class to another, nil when it may: the order has them so, or leaves
// one out.
func (c *Client) Upward(from, to string) error {
	i, j := slices.Index(c.order, from), slices.Index(c.order, to)
	if i >= 0 && j >= 0 && j <= i {
		return fmt.Errorf("the flow escalates from %s to %s, which llm.order in the settings has as no stronger", from, to)
	}
	return nil
}

func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// countUsage counts what an answer took; a provider that does not say is estimated.
func (c Class) countUsage(q lattice.ModelRequest, a *answer) lattice.ModelUsage {
	u := lattice.ModelUsage{InputTokens: a.in, OutputTokens: a.out}
	if !a.counted {
		const bytesPerToken = 4
		u.InputTokens = (len(q.System) + len(q.User) + bytesPerToken - 1) / bytesPerToken
		u.OutputTokens = (a.text.Len() + bytesPerToken - 1) / bytesPerToken
		u.Estimated = true
	}
	u.CostUSD = c.costUSD(u.InputTokens, u.OutputTokens)
	return u
}
