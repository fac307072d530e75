package envoy

import (
	"errors"
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// ServeHTTP answers the same requests as ShouldRateLimit in JSON, for callers without gRPC: 200, or 429 over the limit.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the body has more than 65536 bytes", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the body did not come whole", http.StatusBadRequest)
		return
	}
	var request pb.RateLimitRequest
	if err := protojson.Unmarshal(text, &request); err != nil {
		http.Error(w, "want a RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.ShouldRateLimit(r.Context(), &request)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(status.Code(err)))
		return
	}
	text, err = protojson.Marshal(answer)
	if err != nil { // metadata of a rule that JSON cannot say, such as .nan
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // a caller who has gone does not read it
}

func httpStatus(code codes.Code) int {
	switch code {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}
