// Rates and limits, with Apache Pulsar's Go client.
//
//	limits CHECK URL HTTP_URL TOPIC
//
// TOPIC is tenant/namespace/name, and there. Prints "ok", or why not. Of times only the least that
// something must take is looked at: what is more is the machine's.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	rate  = 50
	count = 120
	// What is there at once is one second's worth; a little less, for the clocks of two processes.
	least = time.Duration(count-rate)*time.Second/rate - 100*time.Millisecond
)

var (
	patience, _         = context.WithTimeout(context.Background(), 120*time.Second)
	url, httpURL, topic string
)

func main() {
	url, httpURL, topic = os.Args[2], os.Args[3], os.Args[4]
	checks := map[string]func(pulsar.Client) error{
		"publish": publish, "dispatch": dispatch, "again": again, "producers": producers,
		"consumers": consumers, "subscriptions": subscriptions, "neighbour": neighbour,
	}
	client, err := connect()
	if err == nil {
		err = checks[os.Args[1]](client)
	}
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("ok")
}

// ---- Rates -------------------------------------------------------------------------------

func publish(client pulsar.Client) error {
	if err := set("publishRate", fmt.Sprintf(`{"publishThrottlingRateInMsg":%d}`, rate)); err != nil {
		return err
	}
	begun := time.Now()
	if err := send(client, topic, count); err != nil {
		return err
	}
	if err := atLeast(least, begun); err != nil {
		return err
	}
	return receive(client, topic, count)
}

func dispatch(client pulsar.Client) error {
	if err := send(client, topic, count); err != nil {
		return err
	}
	if err := setDispatchRate(rate); err != nil {
		return err
	}
	begun := time.Now()
	if err := receive(client, topic, count); err != nil {
		return err
	}
	return atLeast(least, begun)
}

// What is delivered again is held to the rate like all else.
func again(client pulsar.Client) error {
	if err := send(client, topic, rate); err != nil {
		return err
	}
	options := named("s")
	options.NackRedeliveryDelay = 10 * time.Millisecond
	consumer, err := client.Subscribe(options)
	if err != nil {
		return err
	}
	defer consumer.Close()
	first, err := take(consumer, rate)
	if err != nil {
		return err
	}
	if err := setDispatchRate(rate / 5); err != nil {
		return err
	}
	begun := time.Now()
	for _, message := range first {
		consumer.Nack(message)
	}
	second, err := take(consumer, rate)
	if err != nil {
		return err
	}
	if err := atLeast(3900*time.Millisecond, begun); err != nil {
		return err
	}
	sort.Slice(second, func(i, j int) bool { return number(second[i]) < number(second[j]) })
	return inOrder(second)
}

func setDispatchRate(rate int) error {
	body := `{"dispatchThrottlingRateInMsg":%d,"ratePeriodInSecond":1}`
	return set("dispatchRate", fmt.Sprintf(body, rate))
}

// ---- Limits ------------------------------------------------------------------------------

func producers(client pulsar.Client) error {
	return atMostOne("maxProducers", "ProducerBusy", func(string) (func(), error) {
		producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: name(topic)})
		if err != nil {
			return nil, err
		}
		_, err = producer.Send(patience, &pulsar.ProducerMessage{Payload: []byte("0")})
		return producer.Close, err
	})
}

func consumers(client pulsar.Client) error {
	return atMostOne("maxConsumers", "ConsumerBusy", func(string) (func(), error) {
		consumer, err := client.Subscribe(named("s"))
		if err != nil {
			return nil, err
		}
		return consumer.Close, nil
	})
}

func subscriptions(client pulsar.Client) error {
	return atMostOne("maxSubscriptionsPerTopic", "NotAllowedError", func(which string) (func(), error) {
		consumer, err := client.Subscribe(named(which))
		if err != nil {
			return nil, err
		}
		return func() { _ = consumer.Unsubscribe() }, nil
	})
}

// The second one is refused, as long as the first one is there.
func atMostOne(policy, refusal string, create func(string) (func(), error)) error {
	if err := set(policy, "1"); err != nil {
		return err
	}
	remove, err := create("first")
	if err != nil {
		return err
	}
	if _, err := create("second"); err == nil || !strings.Contains(err.Error(), refusal) {
		return fmt.Errorf("the second one: %v", err)
	}
	remove()
	remove, err = create("third")
	if err == nil {
		remove()
	}
	return err
}

// ---- Another tenant ----------------------------------------------------------------------

// One that waits has half a minute before it; another tenant is done before it gets on.
func neighbour(client pulsar.Client) error {
	if err := set("publishRate", `{"publishThrottlingRateInMsg":1}`); err != nil {
		return err
	}
	slow, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: name(topic), DisableBatching: true, SendTimeout: -1,
	})
	if err != nil {
		return err
	}
	answers := make(chan error, 30)
	for i := 0; i < cap(answers); i++ {
		message := pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(i))}
		slow.SendAsync(patience, &message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			answers <- err
		})
	}
	free, err := connect()
	if err != nil {
		return err
	}
	defer free.Close()
	other := strings.Replace(topic, "loud", "quiet", 1)
	if err := send(free, other, 1000); err != nil {
		return err
	}
	if err := receive(free, other, 1000); err != nil {
		return err
	}
	if len(answers) == cap(answers) {
		return fmt.Errorf("nobody was held up")
	}
	if err := set("publishRate", `{"publishThrottlingRateInMsg":-1}`); err != nil {
		return err
	}
	for i := 0; i < cap(answers); i++ {
		if err := <-answers; err != nil {
			return err
		}
	}
	return receive(client, topic, cap(answers))
}

// ---- What they share ---------------------------------------------------------------------

func connect() (pulsar.Client, error) {
	return pulsar.NewClient(pulsar.ClientOptions{URL: url, OperationTimeout: 20 * time.Second})
}

func name(topic string) string {
	return "persistent://" + topic
}

func named(subscription string) pulsar.ConsumerOptions {
	return pulsar.ConsumerOptions{
		Topic: name(topic), SubscriptionName: subscription, Type: pulsar.Shared,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}
}

func send(client pulsar.Client, topic string, count int) error {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: name(topic), DisableBatching: true,
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	answers := make(chan error, count)
	for i := 0; i < count; i++ {
		message := pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(i))}
		producer.SendAsync(patience, &message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			answers <- err
		})
	}
	for i := 0; i < count; i++ {
		if err := <-answers; err != nil {
			return err
		}
	}
	return nil
}

// All that was sent, each once and in its order.
func receive(client pulsar.Client, topic string, count int) error {
	options := named("all")
	options.Topic = name(topic)
	consumer, err := client.Subscribe(options)
	if err != nil {
		return err
	}
	defer consumer.Close()
	found, err := take(consumer, count)
	if err != nil {
		return err
	}
	return inOrder(found)
}

func take(consumer pulsar.Consumer, count int) ([]pulsar.Message, error) {
	var found []pulsar.Message
	for len(found) < count {
		message, err := consumer.Receive(patience)
		if err != nil {
			return nil, fmt.Errorf("%d of %d came: %w", len(found), count, err)
		}
		found = append(found, message)
	}
	return found, nil
}

func number(message pulsar.Message) int {
	found, err := strconv.Atoi(string(message.Payload()))
	if err != nil {
		return -1
	}
	return found
}

func inOrder(messages []pulsar.Message) error {
	for i, message := range messages {
		if number(message) != i {
			return fmt.Errorf("%q came at place %d", message.Payload(), i)
		}
	}
	return nil
}

func atLeast(least time.Duration, begun time.Time) error {
	if took := time.Since(begun); took < least {
		return fmt.Errorf("it took %v", took)
	}
	return nil
}

func set(policy, body string) error {
	path := httpURL + "/admin/v2/persistent/" + topic + "/" + policy
	answer, err := http.Post(path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return nil
}
