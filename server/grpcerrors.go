package server

import (
	"cmp"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// errorDomain is that of the codes in ErrorInfo.
const errorDomain = "coord"

// codesOf is the code of gRPC for each status of HTTP.
var codesOf = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusConflict:              codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnsupportedMediaType:  codes.InvalidArgument,
	http.StatusLocked:                codes.Aborted,
	http.StatusUnprocessableEntity:   codes.DataLoss,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusInternalServerError:   codes.Internal,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// statusOf is err as gRPC tells it, with the same code for programs as HTTP. What is a status itself stays as it is; one
// that a store has answered is only inside of an error.
func statusOf(err error) error {
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok || err == nil {
		return err
	}
	httpStatus, p := problemOf(err)
	code := cmp.Or(codesOf[httpStatus], codes.Internal)
	if p.Error.Code == "unknown_outcome" { // many clients send again by themselves what is Unavailable
		code = codes.Unknown
	}
	info := &errdetails.ErrorInfo{Reason: p.Error.Code, Domain: errorDomain, Metadata: make(map[string]string)}
	for name, value := range map[string]string{"key": p.Error.Key, "holder": p.Error.Holder} {
		if value != "" {
			info.Metadata[name] = short(value)
		}
	}
	details := []protoadapt.MessageV1{info}
	if p.Error.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(ms(p.Error.RetryAfter))})
	}
	st, err := status.New(code, short(p.Error.Message)).WithDetails(details...)
	if err != nil {
		panic(err) // details that always marshal
	}
	return st.Err()
}

// valid is a text as protobuf has it: keys of other programs may be any bytes.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// short is what of a text a refusal has: it comes in headers, of which many clients take 8 KiB.
func short(s string) string { return valid(s[:min(len(s), 1<<10)]) }
