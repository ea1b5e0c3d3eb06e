"""The REST entrance of a local automation adapter, for Python.

`Gateway` runs the gateway as a child of this process, and `Client` posts messages to one; `adapter_gateway.aio` has the
same for asyncio. `enable` and `disable` switch the gateway on and off in the user settings. `find_binary` tells where
the installed program is, and `python -m adapter_gateway` runs it.
"""

from .client import Client as Client
from .command import GatewayOptions as GatewayOptions
from .command import disable as disable
from .command import enable as enable
from .command import find_binary as find_binary
from .errors import BinaryNotFoundError as BinaryNotFoundError
from .errors import GatewayDisabledError as GatewayDisabledError
from .errors import GatewayEndedError as GatewayEndedError
from .errors import GatewayError as GatewayError
from .errors import GatewayProcessError as GatewayProcessError
from .errors import GatewayTimeoutError as GatewayTimeoutError
from .errors import NotSentError as NotSentError
from .errors import Outcome as Outcome
from .errors import OutcomeUnknownError as OutcomeUnknownError
from .errors import RefusedError as RefusedError
from .errors import SendError as SendError
from .errors import SettingsError as SettingsError
from .gateway import Gateway as Gateway
from .process import Event as Event
