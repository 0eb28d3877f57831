package manifests

// SchemaURL is the address of a published schema, such as "workflow", for the "$schema" member of documents. The files
// lie in manifests/schema of the source tree.
func SchemaURL(name string) string {
	return "https://raw.githubusercontent.com/spritekit/lattice/main/manifests/schema/" + name + ".schema.json"
}
