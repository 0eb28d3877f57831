package stories

import "math"

// state is one text being read: what was paid attention to so far, and how likely each token is next.
type state struct {
	m            *Model
	pos          int
	keys, values []float32 // of each layer and position
	logits       []float32
}

// step reads one token: the forward pass.
func (s *state) step(token int) {
	m := s.m
	dim, hidden, kv := int(m.Dim), int(m.Hidden), m.kv()
	x := append([]float32(nil), m.embed[token*dim:(token+1)*dim]...)
	for layer := range int(m.Layers) {
		normed := norm(x, m.attNorm[layer*dim:(layer+1)*dim])
		q := times(m.wq[layer*dim*dim:], normed, dim)
		at := (layer*int(m.Context) + s.pos) * kv
		copy(s.keys[at:], times(m.wk[layer*dim*kv:], normed, kv))
		copy(s.values[at:], times(m.wv[layer*dim*kv:], normed, kv))
		turn(q, s.pos, m.head())
		turn(s.keys[at:at+kv], s.pos, m.head())
		add(x, times(m.wo[layer*dim*dim:], s.attend(layer, q), dim))

		normed = norm(x, m.ffnNorm[layer*dim:(layer+1)*dim])
		gate, up := times(m.w1[layer*dim*hidden:], normed, hidden), times(m.w3[layer*dim*hidden:], normed, hidden)
		for i, v := range gate {
			gate[i] = v / (1 + float32(math.Exp(float64(-v)))) * up[i]
		}
		add(x, times(m.w2[layer*dim*hidden:], gate, dim))
	}
	s.logits = times(m.outputs, norm(x, m.lastNorm), int(m.Vocab))
	s.pos++
}

// attend mixes the values of all positions so far, for each head by how its question meets their keys.
func (s *state) attend(layer int, q []float32) []float32 {
	m := s.m
	head, kv, shared := m.head(), m.kv(), int(m.Heads/m.KVHeads)
	out := make([]float32, len(q))
	weights := make([]float32, s.pos+1)
	for h := range int(m.Heads) {
		from := layer*int(m.Context)*kv + h/shared*head
		for t := range weights {
			key := s.keys[from+t*kv:][:head]
			sum := float32(0)
			for i, v := range q[h*head : (h+1)*head] {
				sum += v * key[i]
			}
			weights[t] = sum / float32(math.Sqrt(float64(head)))
		}
		softmax(weights)
		for t, w := range weights {
			for i, v := range s.values[from+t*kv:][:head] {
				out[h*head+i] += w * v
			}
		}
	}
	return out
}

// likelihood is the logarithm of how likely a token is next.
func (s *state) likelihood(token int) float64 {
	most, sum := s.logits[0], 0.0
	for _, v := range s.logits {
		most = max(most, v)
	}
	for _, v := range s.logits {
		sum += math.Exp(float64(v - most))
	}
	return float64(s.logits[token]-most) - math.Log(sum)
}

// turn rotates pairs of each head by angles that grow with the position.
func turn(v []float32, pos, head int) {
	for i := 0; i < len(v); i += 2 {
		angle := float64(pos) / math.Pow(10000, float64(i%head)/float64(head))
		sin, cos := math.Sincos(angle)
		a, b := v[i], v[i+1]
		v[i], v[i+1] = a*float32(cos)-b*float32(sin), a*float32(sin)+b*float32(cos)
	}
}

// times multiplies a matrix of rows with x.
func times(w, x []float32, rows int) []float32 {
	out := make([]float32, rows)
	for r := range out {
		row, sum := w[r*len(x):(r+1)*len(x)], float32(0)
		for i, v := range row {
			sum += v * x[i]
		}
		out[r] = sum
	}
	return out
}

func norm(x, weight []float32) []float32 {
	sum := float32(0)
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / float32(math.Sqrt(float64(sum/float32(len(x))+1e-5)))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = weight[i] * v * scale
	}
	return out
}

func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

func softmax(v []float32) {
	most, sum := v[0], float32(0)
	for _, x := range v {
		most = max(most, x)
	}
	for i, x := range v {
		v[i] = float32(math.Exp(float64(x - most)))
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}
