// Package docs embeds the documents that commands print parts of. [Errors] is the list of error codes, which lattice explain
// reads. The package never parses a document: each command reads its own.
package docs

import _ "embed"

// Errors is the list of error codes, as Markdown.
//
//go:embed errors.md
var Errors string
