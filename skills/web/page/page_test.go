package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/web"
)

// serve runs a site behind a proxy, as the gateway of a sprite is one: it serves each host by the handler.
func serve(t *testing.T, handler http.HandlerFunc) (env []string) {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return []string{"http_proxy=" + s.URL}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	env := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			fmt.Fprint(w, "<!doctype html><title>A &amp; B</title><script>no()</script><h1>Caf\xe9</h1><p>60 <b>requests</b>\nan&nbsp;hour.<pre>a\nb</pre>&amp;lt;<template>hidden</template><td>x")
		case "/moved":
			http.Redirect(w, r, "http://other.example/page", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/inward":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/login":
			http.Redirect(w, r, "http://user:password@other.example/page", http.StatusFound)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
		case "/large":
			fmt.Fprint(w, strings.Repeat("x", 5000))
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "a < b\n")
		default:
			http.NotFound(w, r)
		}
	})
	for path, want := range map[string]web.Page{
		"http://site.example/page":   {FinalURL: "http://site.example/page", Title: "A & B", Text: "Café\n60 requests an hour.\na\nb\n&lt;\nx\n"},
		"http://site.example/moved":  {FinalURL: "http://other.example/page", Title: "A & B", Text: "Café\n60 requests an hour.\na\nb\n&lt;\nx\n"},
		"http://site.example/text":   {FinalURL: "http://site.example/text", Text: "a < b\n"},
		"http://site.example/none":   {Problem: "the server answers with 404 Not Found"},
		"http://site.example/round":  {Problem: "it redirects more than 5 times"},
		"http://site.example/inward": {Problem: "169.254.169.254 is not a public address"},
		"http://site.example/file":   {Problem: "file:///etc/passwd is not an http or https URL"},
		"http://site.example/login":  {Problem: "the URL holds a user or a password"},
		"http://site.example/image":  {Problem: `it is "image/png", not text`},
		"http://site.example/large":  {Problem: "it has more than 4096 bytes"},
		"http://[::1]/":              {Problem: "::1 is not a public address"},
		"http://10.0.0.1/":           {Problem: "10.0.0.1 is not a public address"},
		"gopher://site.example/":     {Problem: "gopher://site.example/ is not an http or https URL"},
		"http://u:p@site.example/":   {Problem: "the URL holds a user or a password"},
		"not a URL":                  {Problem: "not%20a%20URL is not an http or https URL"},
	} {
		got := Fetch(t.Context(), web.Request{URL: path, MaxBytes: 4096, Env: env})
		if (got.SHA256 == "") != (want.Problem != "") {
			t.Errorf("%s: the digest of the body is %q", path, got.SHA256)
		}
		if got.SHA256 = ""; got != want {
			t.Errorf("%s: %+v\nwant %+v", path, got, want)
		}
	}
}

// A name that leads to this machine is refused where no proxy judges it.
func TestFetchPrivateName(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") }))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	got := Fetch(t.Context(), web.Request{URL: "http://localhost:" + port, MaxBytes: 4096})
	if !strings.Contains(got.Problem, "which is not a public address") {
		t.Errorf("Fetch = %+v", got)
	}
}

func FuzzReadHTML(f *testing.F) {
	f.Add("<title>a</title><p>b<script>c</script>")
	f.Add("<textarea><p>a</textarea>b<svg><svg></svg>c")
	f.Add("<!--a--><pre>\n b</pre>\xff&#0;&nbsp;")
	f.Fuzz(func(t *testing.T, in string) {
		_, text, err := readHTML(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "\n\n") || strings.Contains(text, "  ") || len(text) > 4*len(in)+4 {
			t.Errorf("readHTML(%q) = %q", in, text)
		}
	})
}

// TestManyOpenElementsAreCheap checks that many skipped elements without an end tag do not take quadratic time.
func TestManyOpenElementsAreCheap(t *testing.T) {
	t.Parallel()
	const many = 500_000
	_, text, err := readHTML(strings.NewReader("<p>a" + strings.Repeat("<template>", many) + strings.Repeat("</svg>", many) + "b</template>c"))
	if err != nil || text != "ac\n" {
		t.Errorf("readHTML = %.40q, %v", text, err)
	}
}
