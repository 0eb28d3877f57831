package sandbox

// MostFiles is mostFiles.
var MostFiles = mostFiles
