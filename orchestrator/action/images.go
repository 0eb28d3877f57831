package action

import (
	"regexp"
	"sync"

	"github.com/spritekit/lattice/orchestrator/worktree"
)

// checkImages refuses text that would load an image: the server of the image sees its address, which can carry data.
func checkImages(text, place string) error {
	found := imageTag().FindString(text)
	if found == "" {
		found = findImage(text)
	}
	if found != "" {
		return newRefusal("remote_image", "write the address as a link, without the image", "%s would load an image when it is shown: %q", place, worktree.DisplayName(found))
	}
	return nil
}

// imageTag matches HTML that loads something from elsewhere when a code host or a page shows the text, and links of Gitea such as
// [[https://example.com/a.png]], which it shows as images.
var imageTag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<\s*(?:img|picture|source|video|audio|embed|object|iframe|svg|image|link|style)\b|\[\[[^\n]*?(?:[:/]\\?/|&(?:#|colon|sol))[^\n]*?\]\]`)
})

// imageTarget matches the beginning of the address or of the reference of an image, after its text in brackets.
var imageTarget = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*[(\[]`) })

// linkDefinition matches the definition of a reference, such as [a]: https://example.com/, also in a quotation or in a list.
var linkDefinition = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?ms)^[ \t>*+\-\d.)]*\[(?:[^\[\]\\]|\\.)+\]:`)
})

var blankLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\r?\n[ \t]*\r?\n`) })

// findImage returns the beginning of an image of Markdown: ![text](address), ![text][reference], or ![reference] if the text has
// definitions. It pairs brackets as CommonMark does. Code, HTML and formulas can hold brackets that do not count; after the beginning of
// one in the text of an image, each closing bracket of the paragraph may end the image.
func findImage(text string) string {
	defined := linkDefinition().MatchString(text)
	var open []int // brackets that are not closed yet
	images := 0    // how many of them begin an image
	loose := -1    // the image that any closing bracket may end, -1 for none
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if loose < 0 {
				i++
			}
		case '\r', '\n':
			if blankLine().MatchString(text[i:]) {
				open, images, loose = nil, 0, -1
			}
		case '`', '<', '$':
			if images > 0 && loose < 0 {
				loose = open[0]
			}
		case '[':
			open = append(open, i)
			if beginsImage(text, i) {
				images++
			}
		case ']':
			from := loose
			if last := len(open) - 1; last >= 0 {
				if beginsImage(text, open[last]) {
					images--
					from = open[last]
				}
				open = open[:last]
			}
			if from >= 0 && (defined || imageTarget().MatchString(text[i+1:])) {
				return text[from:min(len(text), i+2)]
			}
		}
	}
	return ""
}

// beginsImage reports whether a bracket of a text follows an exclamation mark.
func beginsImage(text string, bracket int) bool { return bracket > 0 && text[bracket-1] == '!' }
