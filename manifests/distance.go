package manifests

// Distance returns the Levenshtein distance of two names: the least number of bytes to insert, remove or change. It serves to
// suggest a name in place of an unknown one. The distance to a name of more than 64 bytes is the maximum.
func Distance(a, b string) int {
	const far = 1 << 10
	if len(a) > 64 || len(b) > 64 {
		return far
	}
	row := make([]int, len(b)+1) // of the matrix of distances between beginnings
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
