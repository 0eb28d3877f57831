package forgetest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// apps answers requests of a GitHub App.
type apps struct{ *model }

// app is a GitHub App with one installation. Its tokens are those of the account SLUG[bot].
type app struct {
	id, installation int64
	slug             string
	key              *rsa.PublicKey
	bot              *user
	minted           int
	now              func() time.Time
}

// AddApp adds a GitHub App with an installation that may write to a repository, and returns its private key in PEM. now is
// the clock of its client.
func (s *Server) AddApp(id, installation int64, slug, path string, now func() time.Time) (key []byte) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	s.AddUser(slug+"[bot]", "Bot")
	s.SetRole(path, slug+"[bot]", forge.Write)
	s.mu.Lock()
	defer s.mu.Unlock()
	bot := s.mustUser(slug + "[bot]")
	bot.token = ""
	s.app = &app{id: id, installation: installation, slug: slug, key: &private.PublicKey, bot: bot, now: now}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
}

// Minted returns how many tokens the App got.
func (s *Server) Minted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app.minted
}

// asApp answers a request that the App signed. handle runs under the lock of the server.
func (s *model) asApp(handle func(q request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.app == nil {
			writeProblem(w, http.StatusNotFound, "Not Found")
		} else if problem := s.app.checkClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); problem != "" {
			writeProblem(w, http.StatusUnauthorized, problem)
		} else {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err == nil {
				handle(request{Request: r, w: w, body: body})
			}
		}
	}
}

// checkClaims returns the problem of a JSON Web Token in the words of GitHub, "" if there is none.
func (a *app) checkClaims(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "A JSON web token could not be decoded"
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return "A JSON web token could not be decoded"
		}
	}
	var head struct{ Alg, Typ string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	if json.Unmarshal(raw[0], &head) != nil || head.Alg != "RS256" || json.Unmarshal(raw[1], &claims) != nil {
		return "A JSON web token could not be decoded"
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := a.now().Unix()
	switch {
	case rsa.VerifyPKCS1v15(a.key, crypto.SHA256, sum[:], raw[2]) != nil:
		return "A JSON web token could not be decoded"
	case claims.Iss != strconv.FormatInt(a.id, 10):
		return "Integration not found"
	case claims.Exp > now+600 || claims.Exp <= now || claims.Iat > now:
		return "'Expiration time' claim ('exp') is too far in the future"
	}
	return ""
}

// mintToken gives the App a token for an hour. The one before it stops to work. A token for some repositories names them, and serves no request here.
func (s apps) mintToken(q request) {
	if q.PathValue("id") != strconv.FormatInt(s.app.installation, 10) {
		writeProblem(q.w, http.StatusNotFound, "Not Found")
		return
	}
	s.app.minted++
	if q.ContentLength > 0 {
		var in struct {
			Repositories []string
			Permissions  map[string]string
		}
		if q.decode(&in) {
			token := fmt.Sprintf("ghs_%s_%s_%d", strings.Join(in.Repositories, "+"), in.Permissions["contents"], s.app.minted)
			q.writeJSON(http.StatusCreated, map[string]any{"token": token, "expires_at": s.app.now().Add(time.Hour).UTC().Format(time.RFC3339)})
		}
		return
	}
	s.app.bot.token = fmt.Sprintf("ghs_%d_%d", s.app.id, s.app.minted)
	q.writeJSON(http.StatusCreated, map[string]any{"token": s.app.bot.token, "expires_at": s.app.now().Add(time.Hour).UTC().Format(time.RFC3339)})
}
