package stories

import "math"

// state is one text being read: the attention so far, and how likely each token is next.
type state struct {
	m            *Model
	pos          int
	keys, values []float32 // of each layer and position
	logits       []float32
}

// forwardToken reads one token: the forward pass.
func (s *state) forwardToken(token int) {
	m := s.m
	dim, hidden, kv := int(m.Dim), int(m.Hidden), m.kvSize()
	x := append([]float32(nil), m.embed[token*dim:(token+1)*dim]...)
	for layer := range int(m.Layers) {
		normed := rmsNorm(x, m.attNorm[layer*dim:(layer+1)*dim])
		q := multiplyMatrix(m.wq[layer*dim*dim:], normed, dim)
		at := (layer*int(m.Context) + s.pos) * kv
		copy(s.keys[at:], multiplyMatrix(m.wk[layer*dim*kv:], normed, kv))
		copy(s.values[at:], multiplyMatrix(m.wv[layer*dim*kv:], normed, kv))
		rotatePairs(q, s.pos, m.headSize())
		rotatePairs(s.keys[at:at+kv], s.pos, m.headSize())
		addVector(x, multiplyMatrix(m.wo[layer*dim*dim:], s.attend(layer, q), dim))

		normed = rmsNorm(x, m.ffnNorm[layer*dim:(layer+1)*dim])
		gate, up := multiplyMatrix(m.w1[layer*dim*hidden:], normed, hidden), multiplyMatrix(m.w3[layer*dim*hidden:], normed, hidden)
		for i, v := range gate {
			gate[i] = v / (1 + float32(math.Exp(float64(-v)))) * up[i]
		}
		addVector(x, multiplyMatrix(m.w2[layer*dim*hidden:], gate, dim))
	}
	s.logits = multiplyMatrix(m.outputs, rmsNorm(x, m.lastNorm), int(m.Vocab))
	s.pos++
}

// attend mixes the values of all positions so far, for each head by how its question meets their keys.
func (s *state) attend(layer int, q []float32) []float32 {
	m := s.m
	head, kv, shared := m.headSize(), m.kvSize(), int(m.Heads/m.KVHeads)
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

// logLikelihood is the logarithm of how likely a token is next.
func (s *state) logLikelihood(token int) float64 {
	most, sum := s.logits[0], 0.0
	for _, v := range s.logits {
		most = max(most, v)
	}
	for _, v := range s.logits {
		sum += math.Exp(float64(v - most))
	}
	return float64(s.logits[token]-most) - math.Log(sum)
}

// rotatePairs rotates pairs of each head by angles that grow with the position.
func rotatePairs(v []float32, pos, head int) {
	for i := 0; i < len(v); i += 2 {
		angle := float64(pos) / math.Pow(10000, float64(i%head)/float64(head))
		sin, cos := math.Sincos(angle)
		a, b := v[i], v[i+1]
		v[i], v[i+1] = a*float32(cos)-b*float32(sin), a*float32(sin)+b*float32(cos)
	}
}

// multiplyMatrix multiplies a matrix of rows with x.
func multiplyMatrix(w, x []float32, rows int) []float32 {
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

func rmsNorm(x, weight []float32) []float32 {
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

func addVector(x, y []float32) {
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
