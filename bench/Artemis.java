import java.io.File;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.core.config.CoreAddressConfiguration;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/** A broker with durable queues and a journal that is synced: Artemis PORT FOLDER QUEUE... */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]);
        Configuration settings = new ConfigurationImpl()
            .setPersistenceEnabled(true)
            .setJournalType(JournalType.NIO)
            .setJournalSyncTransactional(true)
            .setJournalSyncNonTransactional(true)
            .setSecurityEnabled(false)
            .setJournalDirectory(new File(folder, "journal").getPath())
            .setBindingsDirectory(new File(folder, "bindings").getPath())
            .setLargeMessagesDirectory(new File(folder, "large").getPath())
            .setPagingDirectory(new File(folder, "paging").getPath())
            .addAcceptorConfiguration("amqp",
                "tcp://127.0.0.1:" + arguments[0] + "?protocols=AMQP;amqpCredits=1000;amqpLowCredits=300");
        for (int n = 2; n < arguments.length; n++) {
            settings.addAddressConfiguration(new CoreAddressConfiguration()
                .setName(arguments[n])
                .addRoutingType(RoutingType.ANYCAST)
                .addQueueConfiguration(new QueueConfiguration(arguments[n])
                    .setRoutingType(RoutingType.ANYCAST).setDurable(true)));
        }
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(settings);
        broker.start();
    }
}
