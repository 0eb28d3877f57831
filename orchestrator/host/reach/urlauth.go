package reach

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Who may open a sprite's URL, unless its settings say "public": programs that send the host's token, or one for this
// sprite, as Authorization: Bearer; and browsers that came once with ?token=, which is then taken from them for a cookie.
// Tokens and cookies are for one sprite and end; those of the query work once.
const (
	urlCookie    = "lattice_sprite"
	urlTokenLife = 12 * time.Hour
	loginLife    = 5 * time.Minute
	maxLogins    = 1024 // that were given out and not used
)

// urlKeys makes and knows tokens.
type urlKeys struct {
	key []byte
	now func() time.Time

	mu     boltfile.Lock
	logins map[string]login // by token
}

type login struct {
	sprite string
	until  time.Time
}

// makeToken signs that its bearer may open a sprite's URL until some time.
func (k *urlKeys) makeToken(sprite string, until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 36)
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(sprite + "\n" + end))
	return end + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// isValid reports whether a token is for this sprite and has not ended.
func (k *urlKeys) isValid(token, sprite string) bool {
	end, _, _ := strings.Cut(token, ".")
	unix, err := strconv.ParseInt(end, 36, 64)
	if err != nil || k.now().After(time.Unix(unix, 0)) {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(k.makeToken(sprite, time.Unix(unix, 0)))) == 1
}

// makeInvitation makes a token that signs a browser in, once.
func (k *urlKeys) makeInvitation(sprite string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for token, l := range k.logins {
		if now.After(l.until) {
			delete(k.logins, token)
		}
	}
	if len(k.logins) >= maxLogins {
		return "", false
	}
	if k.logins == nil {
		k.logins = map[string]login{}
	}
	token := rand.Text()
	k.logins[token] = login{sprite, now.Add(loginLife)}
	return token, true
}

// useInvitation takes such a token.
func (k *urlKeys) useInvitation(token, sprite string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.logins[token]
	if !ok || l.sprite != sprite {
		return false
	}
	delete(k.logins, token)
	return !k.now().After(l.until)
}

// admitRequest lets a request through to the sprite, or answers it.
func (u *urlServer) admitRequest(w http.ResponseWriter, r *http.Request, rec records.Sprite) bool {
	if query := r.URL.Query(); query.Has("token") && (r.Method == http.MethodGet || r.Method == http.MethodHead) && u.keys.useInvitation(query.Get("token"), rec.ID) {
		u.signIn(w, r, rec, query)
		return false
	}
	if rec.URLSettings.Auth == "public" || u.hasBearer(r, rec) || ownPage(r) && u.hasCookie(r, rec) {
		return true
	}
	writePage(w, http.StatusUnauthorized, "Not signed in", "This URL is for those whom its owner lets in.", "lattice sprite url "+rec.Name+" --login")
	return false
}

// signIn trades the token in the query for a cookie that no script and no other host gets, and takes it out of the address.
func (u *urlServer) signIn(w http.ResponseWriter, r *http.Request, rec records.Sprite, query url.Values) {
	query.Del("token")
	until := u.Now().Add(urlTokenLife)
	http.SetCookie(w, &http.Cookie{
		Name: urlCookie, Value: u.keys.makeToken(rec.ID, until), Path: "/", Expires: until, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	// The path alone, with one slash in front: it must not lead to another host.
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/\\"), RawQuery: query.Encode()}
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusSeeOther)
}

func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func (u *urlServer) hasBearer(r *http.Request, rec records.Sprite) bool {
	token := bearerToken(r)
	if token == "" {
		return false
	}
	return u.isToken(token) || u.keys.isValid(token, rec.ID)
}

// isToken reports whether a token is the host's own.
func (a *API) isToken(token string) bool {
	return a.Config.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(a.Config.Token)) == 1
}

// hasCookie looks at all cookies of the name: programs in the sprite may have set some.
func (u *urlServer) hasCookie(r *http.Request, rec records.Sprite) bool {
	return slices.ContainsFunc(r.CookiesNamed(urlCookie), func(c *http.Cookie) bool { return u.keys.isValid(c.Value, rec.ID) })
}

// ownPage reports whether a browser sends the request for a person or for a page of the sprite itself. Requests that
// another page causes come without the cookie's power, but for following a link.
func ownPage(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host { // https: of a reverse proxy
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// withoutOurs removes the credentials of the host from a request: programs in the sprite must not have them.
func withoutOurs(r *http.Request) {
	to := r.Context().Value(targetKey{}).(target)
	if to.secret != "" && bearerToken(r) == to.secret {
		r.Header.Del("Authorization")
	}
	var kept []string // as they came: they are not ours to tidy up
	for _, line := range r.Header.Values("Cookie") {
		for c := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(c, "="); strings.TrimSpace(name) != urlCookie {
				kept = append(kept, strings.TrimSpace(c))
			}
		}
	}
	r.Header.Del("Cookie")
	if len(kept) > 0 {
		r.Header.Set("Cookie", strings.Join(kept, "; "))
	}
}

// InviteURL answers with a sprite's URL and the tokens that open it.
func (a *API) InviteURL(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	if a.urls == nil {
		return wire.Refuse(http.StatusNotImplemented, "no_urls", "this host serves no URLs of sprites")
	}
	once, ok := a.urls.keys.makeInvitation(rec.ID)
	if !ok {
		return wire.Refuse(http.StatusTooManyRequests, "too_many_logins", "too many sign-ins were asked for and not used; try again in some minutes")
	}
	until := a.Now().Add(urlTokenLife)
	auth := cmp.Or(rec.URLSettings.Auth, "sprite")
	url := a.urls.urlOf(rec.Name)
	if r.URL.Query().Get("form") == "address" {
		if url, err = a.urls.giveAddress(rec.Name); err != nil {
			return err
		}
	}
	wire.WriteJSON(w, http.StatusOK, sprites.URLAccess{
		URL: url, Auth: auth, Login: url + "?token=" + once, Token: a.urls.keys.makeToken(rec.ID, until), Expires: until,
	})
	return nil
}
