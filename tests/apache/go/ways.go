// Compacted topics and ways in, with Apache Pulsar's Go client.
//
//	ways compacted URL HTTP_URL
//	ways basic URL USER PASSWORD TOPIC
//	ways token URL TOKEN TOPIC
//	ways oauth2 URL ISSUER CREDENTIALS_FILE AUDIENCE TOPIC
//
// Prints "ok", or "refused" and why.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	keys  = 7
	count = 60
)

var patience, _ = context.WithTimeout(context.Background(), 60*time.Second)

func main() {
	told := os.Args[1:]
	var err error
	switch told[0] {
	case "compacted":
		err = compacted(told[1], told[2])
	case "basic":
		var who pulsar.Authentication
		if who, err = pulsar.NewAuthenticationBasic(told[2], told[3]); err == nil {
			err = exchange(told[1], who, told[4])
		}
	case "token":
		err = exchange(told[1], pulsar.NewAuthenticationToken(told[2]), told[3])
	case "oauth2":
		err = exchange(told[1], pulsar.NewAuthenticationOAuth2(map[string]string{
			"type":       "client_credentials",
			"issuerUrl":  told[2],
			"audience":   told[4],
			"privateKey": "file://" + told[3],
		}), told[5])
	}
	if err != nil {
		fmt.Println("refused", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("ok")
}

// A message there and back.
func exchange(url string, who pulsar.Authentication, topic string) error {
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: url, Authentication: who, OperationTimeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"})
	if err != nil {
		return err
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	if err != nil {
		return err
	}
	if _, err = producer.Send(patience, &pulsar.ProducerMessage{Payload: []byte("hello")}); err != nil {
		return err
	}
	message, err := consumer.Receive(patience)
	if err != nil {
		return err
	}
	if string(message.Payload()) != "hello" {
		return fmt.Errorf("%q came back", message.Payload())
	}
	return consumer.Ack(message)
}

func compacted(url, httpURL string) error {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url})
	if err != nil {
		return err
	}
	defer client.Close()
	for _, single := range []bool{true, false} {
		name := fmt.Sprintf("compacted-by-go-%v", single)
		topic := "persistent://public/default/" + name
		steps := []func() error{
			func() error { return publish(client, topic, single, 0) },
			func() error { return compact(httpURL, name) },
			func() error { return read(client, topic) },
			func() error { return view(client, topic) },
			func() error { return consumeOn(client, topic, single) },
		}
		for number, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("%s, step %d: %w", name, number, err)
			}
		}
	}
	return nil
}

// Messages of seven keys, of which one is taken away at the end.
func publish(client pulsar.Client, topic string, single bool, first int) error {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: single, BatchingMaxPublishDelay: time.Second,
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	var failed error
	sent := func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		if err != nil {
			failed = err
		}
	}
	for i := first; i < first+count; i++ {
		message := pulsar.ProducerMessage{Key: fmt.Sprint("k", i%keys), Payload: []byte(value(i))}
		producer.SendAsync(patience, &message, sent)
	}
	producer.SendAsync(patience, &pulsar.ProducerMessage{Key: "k0", Payload: []byte{}}, sent)
	if err := producer.Flush(); err != nil {
		return err
	}
	return failed
}

func value(i int) string {
	return fmt.Sprint("v", i)
}

func expected() map[string]string {
	last := map[string]string{}
	for i := 0; i < count; i++ {
		last[fmt.Sprint("k", i%keys)] = value(i)
	}
	delete(last, "k0")
	return last
}

func judge(found map[string]string) error {
	if !reflect.DeepEqual(found, expected()) {
		return fmt.Errorf("%v, and not %v", found, expected())
	}
	return nil
}

func compact(httpURL, name string) error {
	path := httpURL + "/admin/v2/persistent/public/default/" + name + "/compaction"
	request, _ := http.NewRequest(http.MethodPut, path, nil)
	if _, err := http.DefaultClient.Do(request); err != nil {
		return err
	}
	for {
		answer, err := http.Get(path)
		if err != nil {
			return err
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if strings.Contains(string(body), "SUCCESS") {
			return nil
		}
		if strings.Contains(string(body), "ERROR") {
			return fmt.Errorf("%s", body)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func read(client pulsar.Client, topic string) error {
	reader, err := client.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(), ReadCompacted: true,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	found := map[string]string{}
	for reader.HasNext() {
		message, err := reader.Next(patience)
		if err != nil {
			return err
		}
		if _, known := found[message.Key()]; known {
			return fmt.Errorf("%s came twice", message.Key())
		}
		found[message.Key()] = string(message.Payload())
	}
	return judge(found)
}

func view(client pulsar.Client, topic string) error {
	table, err := client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: pulsar.NewBytesSchema(nil), SchemaValueType: reflect.TypeOf([]byte{}),
	})
	if err != nil {
		return err
	}
	defer table.Close()
	found := map[string]string{}
	for key, value := range table.Entries() {
		found[key] = string(value.([]byte))
	}
	return judge(found)
}

// A consumer reads the view, acknowledges it, and goes on in the topic.
func consumeOn(client pulsar.Client, topic string, single bool) error {
	options := pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", ReadCompacted: true, AckWithResponse: true,
		// What compaction left out of a batch is never acknowledged, so a batch is never done.
		EnableBatchIndexAcknowledgment: true,
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
	}
	consumer, err := client.Subscribe(options)
	if err != nil {
		return err
	}
	found := map[string]string{}
	var last pulsar.Message
	for range expected() {
		if last, err = consumer.Receive(patience); err != nil {
			return err
		}
		found[last.Key()] = string(last.Payload())
	}
	if err := judge(found); err != nil {
		return err
	}
	if err := consumer.AckCumulative(last); err != nil {
		return err
	}
	consumer.Close()
	if err := publish(client, topic, single, 1000); err != nil {
		return err
	}
	if consumer, err = client.Subscribe(options); err != nil {
		return err
	}
	defer consumer.Close()
	for i := 1000; i < 1000+count; i++ {
		message, err := consumer.Receive(patience)
		if err != nil {
			return err
		}
		if string(message.Payload()) != value(i) {
			return fmt.Errorf("%q follows, and not %q", message.Payload(), value(i))
		}
	}
	return nil
}
