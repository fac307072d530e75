package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Envoy's own, envoy.service.ratelimit.v3. Its codes are 0 for unknown, 1 for OK and 2 for over the limit.
var envoyProtocol = protocol{
	method:  "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	request: envoyRequest,
	read:    readEnvoy,
}

func envoyRequest(domain string, entries []entry) frame {
	b := appendText(nil, 1, domain)
	for _, e := range entries {
		one := appendText(appendText(nil, 1, e.key), 2, e.value)
		b = appendMessage(b, 2, appendMessage(nil, 1, one))
	}
	return b
}

// readEnvoy wants a status of each limit. One that no rule is for has a code, but no limit.
func readEnvoy(answer frame, limits int) (bool, error) {
	const code, limit = 1, 2
	var overall uint64
	statuses := 0
	err := fields(answer, func(field protowire.Number, n uint64, part []byte) error {
		switch field {
		case 1:
			overall = n
		case 2:
			statuses++
			status, err := look(part)
			if err != nil || status[code] == 0 || status[limit] == 0 {
				return fmt.Errorf("%w: status %x", errAnswer, part)
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if overall != 1 && overall != 2 || statuses != limits {
		return false, fmt.Errorf("%w: code %d, %d statuses", errAnswer, overall, statuses)
	}
	return overall == 1, nil
}

// Gubernator's own, pb.gubernator.V1. Its status is 0 below the limit, and 1 above.
var gubernatorProtocol = protocol{
	method:  "/pb.gubernator.V1/GetRateLimits",
	request: gubernatorRequest,
	read:    readGubernator,
}

func gubernatorRequest(_ string, entries []entry) frame {
	const hour = 3_600_000 // ms
	var b []byte
	for _, e := range entries {
		one := appendText(appendText(nil, 1, e.key), 2, e.value)
		b = appendMessage(b, 1, appendInt(appendInt(appendInt(one, 3, 1), 4, plenty), 5, hour))
	}
	return b
}

// readGubernator wants a response for each limit, which may be an error.
func readGubernator(answer frame, limits int) (bool, error) {
	const status, limit, failed = 1, 2, 5
	responses, admitted := 0, true
	err := fields(answer, func(field protowire.Number, _ uint64, part []byte) error {
		if field != 1 {
			return nil
		}
		responses++
		response, err := look(part)
		if err != nil || response[limit] == 0 || response[failed] > 0 {
			return fmt.Errorf("%w: %q", errAnswer, part)
		}
		admitted = admitted && response[status] == 0
		return nil
	})
	if err != nil {
		return false, err
	}
	if responses != limits {
		return false, fmt.Errorf("%w: %d responses", errAnswer, responses)
	}
	return admitted, nil
}
