package limits

// ring is a double-ended queue in a circular buffer whose size is a power of
// two. Once it has grown to what its owner needs it no longer allocates.
type ring[T any] struct {
	buf  []T
	head int
	n    int
}

func (r *ring[T]) len() int { return r.n }

// at is the i-th element, counted from the oldest.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push adds v as the newest.
func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		grown := make([]T, max(1, 2*len(r.buf)))
		for i := range r.n {
			grown[i] = *r.at(i)
		}
		r.buf, r.head = grown, 0
	}
	r.n++
	*r.at(r.n - 1) = v
}

// pop drops the oldest.
func (r *ring[T]) pop() {
	var zero T
	*r.at(0) = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// popNewest drops the newest.
func (r *ring[T]) popNewest() {
	var zero T
	*r.at(r.n - 1) = zero
	r.n--
}
