package github

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// App mints tokens for one installation of a GitHub App. A token holds for an hour; App asks for the next one before that.
type App struct {
	id, installation int64
	key              *rsa.PrivateKey
	as               *rest.Client // with the authority of the App itself
	now              func() time.Time

	minting chan struct{} // holds a value while a token is asked for; the others wait for the same answer

	mu      sync.Mutex
	token   string
	expires time.Time
}

// early is how long before its end a token is replaced.
const early = 5 * time.Minute

// ParseKey reads the private key of an App, in PEM.
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it holds no key in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("it holds no private key of RSA")
	}
	return key, nil
}

// NewApp returns a client for an installation of an App.
func NewApp(web string, id, installation int64, key *rsa.PrivateKey, o rest.Options) *Client {
	a := &App{id: id, installation: installation, key: key, now: o.Now, minting: make(chan struct{}, 1)}
	if a.now == nil {
		a.now = time.Now
	}
	o.Token = a.Token
	c := New(web, o)
	o.Base, o.Header, o.Token = cmp.Or(o.Base, BaseOf(web)), newHeader(), a.signClaims
	a.as = rest.New(o)
	c.app = a
	return c
}

// Token returns a token of the installation that holds for some minutes at least.
func (a *App) Token(ctx context.Context) (string, error) {
	select {
	case a.minting <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-a.minting }()
	a.mu.Lock()
	token, expires := a.token, a.expires
	a.mu.Unlock()
	if token != "" && a.now().Before(expires.Add(-early)) {
		return token, nil
	}
	answer, err := a.requestToken(ctx, nil)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.expires = answer.Token, answer.ExpiresAt
	return answer.Token, nil
}

// minted is a new token.
type minted struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// requestToken asks for a token.
func (a *App) requestToken(ctx context.Context, in any) (out minted, err error) {
	path := "/app/installations/" + strconv.FormatInt(a.installation, 10) + "/access_tokens"
	if err := a.as.Do(ctx, http.MethodPost, path, in, &out); err != nil {
		return out, fmt.Errorf("get a token for the installation %d of the App %d: %w", a.installation, a.id, err)
	}
	return out, nil
}

// Mint returns a token of an hour for some repositories of the installation, by name, with some of its permissions.
func (a *App) Mint(ctx context.Context, repositories []string, permissions map[string]string) (string, error) {
	out, err := a.requestToken(ctx, map[string]any{"repositories": repositories, "permissions": permissions})
	return out.Token, err
}

// LastToken returns the token that was minted last, "" if there is none yet.
func (a *App) LastToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// fetchSlug returns the name of the App in URLs.
func (a *App) fetchSlug(ctx context.Context) (string, error) {
	var answer struct {
		Slug string `json:"slug"`
	}
	err := a.as.Do(ctx, http.MethodGet, "/app", nil, &answer)
	return answer.Slug, err
}

// signClaims returns a JSON Web Token by which the App proves who it is. It begins a minute ago, for clocks that differ, and
// ends before the ten minutes that GitHub allows.
func (a *App) signClaims(context.Context) (string, error) {
	now := a.now()
	claims, err := json.Marshal(map[string]any{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": strconv.FormatInt(a.id, 10)})
	if err != nil {
		return "", fmt.Errorf("encode the claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign for the App %d: %w", a.id, err)
	}
	return signed + "." + encode(signature), nil
}
