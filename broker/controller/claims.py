"""Whether somebody who claims to be the controller is: ZooKeeper is asked once for every epoch that is new here.

A broker that has proven itself is a broker, not the controller. Without this, one that claims an epoch from the far future
would be obeyed, and no true controller after it.
"""

import logging

from ottla.wire.errors import BrokerNotAvailable, ClusterAuthorizationFailed, StaleControllerEpoch
from ottla.zk.election import read_controller
from ottla.zk.errors import ZkError
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)


class ControllerClaims:
    """The newest controller that this broker knows of: its id and its epoch, which only grows."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._epoch = 0
        self._id = -1

    def are_known(self, controller_id: int, epoch: int) -> bool:
        """Whether this is the controller that was checked last. StaleControllerEpoch if a later one is known."""
        if epoch < self._epoch:
            raise StaleControllerEpoch(f"controller epoch {epoch}; {self._epoch} has spoken since")
        return (controller_id, epoch) == (self._id, self._epoch)

    async def check(self, controller_id: int, epoch: int) -> None:
        """Ask ZooKeeper; raises unless this broker is the controller of this epoch, and no later one is known.

        ClusterAuthorizationFailed for an epoch that there never was.
        """
        try:
            found = await read_controller(self._session)
        except ZkError as error:
            raise BrokerNotAvailable(f"ZooKeeper cannot be asked who the controller is: {error}") from None
        if epoch > found.epoch:
            logger.warning("a broker claims a controller epoch that never was broker=%d epoch=%d", controller_id, epoch)
            raise ClusterAuthorizationFailed(f"there is no controller epoch {epoch}; the last one was {found.epoch}")
        if epoch < found.epoch or found.broker_id not in (None, controller_id):
            raise StaleControllerEpoch(
                f"broker {controller_id} is not the controller of epoch {epoch}: broker {found.broker_id} is, of {found.epoch}"
            )
        self.are_known(controller_id, epoch)  # a later one may have been checked meanwhile
        self._id, self._epoch = controller_id, epoch
