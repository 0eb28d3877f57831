package host_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

func TestContract(t *testing.T) {
	server := httptest.NewServer(newHost(t, "secret").Handler())
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	spritestest.Run(t, spritestest.Target{
		BaseURL: server.URL, Token: "secret", HTTPClient: &http.Client{Transport: transport},
		Capabilities: []string{"structured-id", "auto-checkpoint", "guard", "inside", "bytes-names", "control"},
	})
}

// TestRemoteContract holds a remote service to the same promises, where one is named.
func TestRemoteContract(t *testing.T) {
	base := os.Getenv("SPRITES_API_URL")
	if base == "" {
		t.Skip("SPRITES_API_URL is not set")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	spritestest.Run(t, spritestest.Target{BaseURL: base, Token: os.Getenv("SPRITES_TOKEN"), HTTPClient: &http.Client{Transport: transport}})
}
