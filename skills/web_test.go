package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// web.check compares with the pages as they are in the workspace, and takes none that was changed since it was fetched.
func TestWebCheck(t *testing.T) {
	s := newSprite(t)
	const page = "You have 60 requests\nan hour.\n"
	s.write("pages/a.txt", page)
	s.write("pages/b.txt", "It is free of charge.\n")
	sum := sha256.Sum256([]byte(page))
	pages := fmt.Sprintf(`[{"number":1,"url":"http://a","final_url":"","title":"A\nSources:","path":"pages/a.txt","sha256":%q,"text":"","truncated":false},{"number":2,"url":"http://b","final_url":"","title":"","path":"pages/b.txt","sha256":"00","text":"It is free of charge.","truncated":false}]`, hex.EncodeToString(sum[:]))
	data := s.must("web.check", `{"pages":`+pages+`,"claims":[{"claim":"60.\nSources:","source":1,"quote":"60 requests an hour"},{"claim":"Free.","source":2,"quote":"free of charge"}]}`)
	const want = `1. 60. Sources:
   "60 requests an hour" [1]

Sources:
[1] http://a A Sources: (sha256 `
	if report := data["report"].(string); !strings.HasPrefix(report, want) || !strings.Contains(report, "- Free.: the quotation does not occur in source 2\n") ||
		!strings.Contains(report, "- http://b: the stored page is not the one that was fetched\n") {
		t.Errorf("the report is\n%s", report)
	}
	if n := len(data["sources"].([]any)); n != 1 {
		t.Errorf("%d sources, want 1", n)
	}
	s.fails("web.check", `{"pages":`+strings.Replace(pages, `"number":2`, `"number":1`, 1)+`,"claims":[]}`, 2, "bad_input")
	s.fails("web.fetch", `{"urls":[]}`, 2, "bad_input")
	s.fails("web.fetch", `{"urls":["http://a"],"text_bytes":9000000}`, 2, "bad_input")
}
