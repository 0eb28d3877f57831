package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestModels asks the host's way to models through the proxy that a sprite has: by URL and by tunnel, several times over one
// connection, where nothing else is allowed, and where a rule denies just this.
func TestModels(t *testing.T) {
	none := Rule{"*", Deny, ""}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	})
	g := gateway(none)
	g.cfg.Models = echo
	address := proxyOf(t, g, "", func(c net.Conn) { c.Close() })
	ask := func(request string, answers int) (got string) {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		r := bufio.NewReader(conn)
		for range answers {
			res, err := http.ReadResponse(r, &http.Request{Method: strings.Split(request, " ")[0]})
			if err != nil {
				return got + err.Error()
			}
			body := []byte("tunnel")
			if !strings.HasPrefix(request, "CONNECT") || got != "" {
				body, _ = io.ReadAll(res.Body)
			}
			res.Body.Close()
			got += fmt.Sprintf("%d %s\n", res.StatusCode, body)
		}
		return got
	}
	const post = "POST %s/v1/messages HTTP/1.1\r\nHost: models.lattice.internal\r\nContent-Length: 2\r\n\r\nhi"
	if got := ask(fmt.Sprintf(post, ModelURL), 1); got != "200 POST /v1/messages hi\n" {
		t.Errorf("by URL: %q", got)
	}
	if got := ask("CONNECT models.lattice.internal:80 HTTP/1.1\r\n\r\n"+fmt.Sprintf(post+post, "", ""), 3); !strings.HasSuffix(got, "200 POST /v1/messages hi\n200 POST /v1/messages hi\n") {
		t.Errorf("by tunnel: %q", got)
	}
	for name, request := range map[string]string{
		"another port":     "CONNECT models.lattice.internal:443 HTTP/1.1\r\n\r\n",
		"a name below it":  "CONNECT a.models.lattice.internal:80 HTTP/1.1\r\n\r\n",
		"any other name":   "CONNECT good.example:80 HTTP/1.1\r\n\r\n",
		"the host's ports": "CONNECT host.lattice.internal:80 HTTP/1.1\r\n\r\n",
	} {
		if got := ask(request, 1); !strings.HasPrefix(got, "403") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !g.allowed(ModelName) {
		t.Error("its name is not looked up")
	}
	var m dnsmessage.Message
	if err := m.Unpack(answerQuery(query(ModelName+".", dnsmessage.TypeA), g)); err != nil || len(m.Answers) != 1 {
		t.Errorf("DNS: %v, %d answers", err, len(m.Answers))
	}
	p := compile(t, Rule{ModelName, Deny, ""})
	g.SetPolicy(p)
	if got := ask(fmt.Sprintf(post, ModelURL), 1); !strings.HasPrefix(got, "403") || g.allowed(ModelName) {
		t.Errorf("denied by a rule: %q", got)
	}
	g.SetPolicy(compile(t, none))
	g.cfg.Models = nil
	if g.allowed(ModelName) {
		t.Error("a host without a way to models answers for its name")
	}
}
