package rest

import (
	"net/http"
	"testing"
)

// TestNextPage checks that the next page is found in one Link header and in several, such as one that a proxy adds.
func TestNextPage(t *testing.T) {
	t.Parallel()
	const next, last = `<https://a.example/x?page=2>; rel="next"`, `<https://a.example/x?page=9>; rel="last"`
	for name, tt := range map[string]struct {
		links []string
		want  string
	}{
		"none":            {nil, ""},
		"the last page":   {[]string{`<https://a.example/x?page=1>; rel="first"`}, ""},
		"one line":        {[]string{last + ", " + next}, "https://a.example/x?page=2"},
		"two lines":       {[]string{last, next}, "https://a.example/x?page=2"},
		"a proxy's first": {[]string{`</style.css>; rel="preload"; as="style"`, next + ", " + last}, "https://a.example/x?page=2"},
		"not closed":      {[]string{`<https://a.example/x; rel="next"`}, ""},
	} {
		if got := nextPage(http.Header{"Link": tt.links}); got != tt.want {
			t.Errorf("%s: nextPage = %q, want %q", name, got, tt.want)
		}
	}
}
