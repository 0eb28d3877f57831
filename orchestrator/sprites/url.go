package sprites

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// URLs are the calls about the URLs of sprites; see [Client.URLs].
type URLs struct{ *transport }

// URLAccess is a sprite's URL and the credentials that open it.
type URLAccess struct {
	URL     string    `json:"url"`
	Auth    string    `json:"auth"`                // sprite: only with the members below; public: open to all who can reach it
	Login   string    `json:"login_url,omitempty"` // signs a browser in, once, within minutes
	Token   string    `json:"token,omitempty"`     // to be sent as Authorization: Bearer
	Expires time.Time `json:"expires_at,omitzero"` // of Token, and of a browser's being signed in
}

// SetAuth says who may open the sprite's URL: "sprite" or "public".
func (c URLs) SetAuth(ctx context.Context, name, auth string) (Sprite, error) {
	in := map[string]any{"url_settings": map[string]string{"auth": auth}}
	var out Sprite
	err := c.sendRequest(ctx, request{method: http.MethodPut, path: spritePath(name), in: in}, &out)
	return out, describeError(err, "open the URL of %s to %s", name, auth)
}

// Invite asks the embedded host for the credentials of the sprite's URL. With byAddress the URL has an IP address of the
// sprite's own instead of a name, which every program can resolve. Remote services answer with 404 or 405: their URLs take
// the token of the API.
func (c URLs) Invite(ctx context.Context, name string, byAddress bool) (URLAccess, error) {
	var out URLAccess
	query := url.Values{}
	if byAddress {
		query.Set("form", "address")
	}
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "url"), query: query}, &out)
	return out, describeError(err, "open the URL of %s", name)
}
